"""init: a job file and worldsize.toml for what is here."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from worldsize.cli.console import here
from worldsize.cli.output import ask, say
from worldsize.cli.project.detect import Cluster, Option, Script
from worldsize.errors import JobError, NotFound, UsageError
from worldsize.trust.documents import open_document, write_document

JOB = "job.yml"
CONFIG = "worldsize.toml"
SCHEMA = "worldsize.schema.json"
_MOST = 1_000_000

Answer = TypeVar("Answer")

_EXAMPLES = """examples:
  worldsize init                  asks a few things; writes job.yml and worldsize.toml here
  worldsize init examples/mine --yes
                                  takes what it finds, without asking (as it does without a terminal)"""


class Answers(NamedTuple):
    script: Script | None
    nodes: int
    processes: int
    compute: str
    values: dict[str, str]


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="the project (default: here)")
    parser.add_argument("-y", "--yes", action="store_true", help="take the defaults; ask nothing")
    parser.add_argument("--force", action="store_true", help="overwrite %s and %s" % (JOB, CONFIG))
    parser.set_defaults(act=init)


def init(options: argparse.Namespace) -> int:
    from worldsize.cli.project import detect
    from worldsize.cli.project.init_files import config_text, job_text
    from worldsize.trust.decisions import trust_new_file

    directory = os.path.join(here(), options.directory)
    if not os.path.isdir(directory):
        raise NotFound("no such directory", options.directory, "init describes a project that is there")
    job = os.path.join(directory, JOB)
    if os.path.lexists(job) and not options.force:
        raise UsageError("exists already", os.path.join(options.directory, JOB), "--force overwrites it")
    cluster = detect.slurm()
    answers = _answers(directory, cluster, asking=not options.yes and sys.stdin.isatty())
    text = job_text(os.path.basename(os.path.abspath(directory)), answers.script, answers)
    _check(text, job)
    config = config_text(cluster)
    if _write(directory, options.directory, CONFIG, config, options.force):
        trust_new_file(os.path.join(directory, CONFIG), config.encode(), os.environ)
    _write(directory, options.directory, SCHEMA, _schema(), force=True)
    _write(directory, options.directory, JOB, text, options.force)
    _advise(answers)
    say("now: worldsize run %s" % os.path.normpath(os.path.join(options.directory, JOB)))
    return 0


def _answers(directory: str, cluster: Cluster | None, asking: bool) -> Answers:
    from worldsize.cli.project import detect

    scripts = detect.find_scripts(directory)
    gpus = detect.gpus()
    path = scripts[0] if scripts else None
    if asking:
        say(*_findings(scripts, gpus, cluster))
        path = _ask("script", path or "", lambda text: _existing(directory, text)) or None
    script = detect.read_script(directory, path) if path else None
    nodes, processes, compute = 1, gpus or (2 if script and script.distributed else 1), "local"
    values: dict[str, str] = {}
    if asking:
        nodes = _ask("nodes", str(nodes), _positive)
        processes = _ask("processes per node", str(processes), _positive)
        compute = _ask("compute (%s)" % ", ".join(_computes(cluster)), compute, lambda text: _one_of(text, cluster))
        for option in _required(script):
            values[option.name] = _ask("%s, which %s requires" % (option.flag, path), "", _word)
    return Answers(script, nodes, processes, compute, values)


def _findings(scripts: list[str], gpus: int, cluster: Cluster | None) -> list[str]:
    scripts_found = ", ".join(scripts[:5]) + (", …" if len(scripts) > 5 else "") if scripts else "none"
    found = "Slurm (%s)" % (", ".join(cluster.partitions) or "no partitions seen") if cluster else "no Slurm"
    told = "found: scripts: %s; %d GPU%s; %s" % (scripts_found, gpus, "" if gpus == 1 else "s", found)
    return [told, "Enter takes what stands in brackets."]


def _ask(question: str, default: str, read: Callable[[str], Answer]) -> Answer:
    """Asks until `read` takes the answer. KeyboardInterrupt when there is no more input."""
    while True:
        ask("%s%s: " % (question, " [%s]" % default if default else ""))
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt
        try:
            return read(line.strip() or default)
        except ValueError as error:
            say("  %s" % error)


def _existing(directory: str, text: str) -> str:
    if text and not os.path.isfile(os.path.join(directory, text)):
        raise ValueError("there is no %s in %s" % (text, directory))
    if os.path.isabs(text) or text.startswith(".."):
        raise ValueError("the script must lie in the project")
    return os.path.normpath(text) if text else ""


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= _MOST):
        raise ValueError("a whole number from 1 on")
    return int(text)


def _computes(cluster: Cluster | None) -> list[str]:
    return ["local", "cluster"] if cluster else ["local"]


def _one_of(text: str, cluster: Cluster | None) -> str:
    if text not in _computes(cluster):
        raise ValueError("one of: %s" % ", ".join(_computes(cluster)))
    return text


def _word(text: str) -> str:
    if not text:
        raise ValueError("it has no default")
    return text


def _required(script: Script | None) -> list[Option]:
    return [option for option in script.options if option.default is None] if script else []


def _check(text: str, path: str) -> None:
    from worldsize.jobspec.reading.job_file import parse_job

    try:
        parse_job(text, path)
    except JobError as error:
        raise UsageError("no job can be made of this: %s" % error.what, error.where, "write %s by hand" % JOB) from None


def _schema() -> str:
    import json

    from worldsize.jobspec.schema import job_schema

    return json.dumps(job_schema(), indent=2) + "\n"


def _write(directory: str, shown: str, name: str, text: str, force: bool) -> bool:
    """Whether it was written: never over what is there, unless `force`."""
    place = os.path.normpath(os.path.join(shown, name))
    try:
        if force:
            write_document(os.path.join(directory, name), text.encode())
        else:
            with open_document(os.path.join(directory, name), new=True) as file:
                file.write(text)
    except FileExistsError:
        say("kept   %s" % place)
        return False
    say("wrote  %s" % place)
    return True


def _advise(answers: Answers) -> None:
    script = answers.script
    if script is None:
        say("no Python script was found: the job says who each rank is; put your own command in its place")
        return
    if answers.nodes * answers.processes > 1 and not script.distributed:
        say("%s does not seem to use torch.distributed: each of its ranks would do the whole work" % script.path)
    missing = [option.flag for option in _required(script) if option.name not in answers.values]
    missing += script.positionals
    if missing:
        say("%s wants %s: add it to the command" % (script.path, ", ".join(missing)))
