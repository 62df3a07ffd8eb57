"""The commands `worldsize init`, which writes a job file and worldsize.toml for the project, and `worldsize schema`,
which prints the schema of job files for editors, and the schema of a verb's output for programs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from worldsize.cli.console import current_directory, set_completer
from worldsize.cli.output import report, show_json, show_question
from worldsize.errors import JobError, NotFound, UsageError
from worldsize.service.providers import find_provider
from worldsize.trust.decisions import try_write_decision
from worldsize.trust.documents import open_document, write_document
from worldsize.wings.project.detect import (
    ScriptOption,
    SlurmCluster,
    TrainingScript,
    find_scripts,
    find_slurm_cluster,
    read_script,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.project.files import InitAnswers

JOB = "job.yml"
CONFIG = "worldsize.toml"
SCHEMA = "worldsize.schema.json"
_MOST = 1_000_000

_EXAMPLES = {
    "schema": """examples:
  worldsize schema > worldsize.schema.json      then, as the first line of a job file:
                                                # yaml-language-server: $schema=worldsize.schema.json
  worldsize schema status                       the output of `worldsize status -o json`: each key, its unit, when it is
  worldsize schema env list                     null; guaranteed keys are required""",
    "init": """examples:
  worldsize init                  asks a few questions; writes job.yml and worldsize.toml here
  worldsize init examples/mine --yes
                                  accepts the defaults, without questions (as without a terminal)""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    if verb == "schema":
        what = parser.add_argument(
            "what",
            nargs="*",
            metavar="VERB",
            help="the schema of the output of VERB -o json; may be two words: env list",
        )
        set_completer(what, complete_words)
        parser.set_defaults(act=show_schema)
        return
    parser.add_argument("directory", nargs="?", default=".", metavar="DIR", help="the project (default: here)")
    parser.add_argument("-y", "--yes", action="store_true", help="accept the defaults; ask nothing")
    parser.add_argument("--force", action="store_true", help=f"overwrite {JOB} and {CONFIG}")
    parser.set_defaults(act=init)


def complete_words(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the possible next words in the name of a verb of `worldsize schema`, for shell completion."""
    from worldsize.wings.project.verb_schemas import described_verbs

    given = list(parsed_args.what or ())
    names = [verb.split() for verb in described_verbs()]
    return sorted({name[len(given)] for name in names if len(name) > len(given) and name[: len(given)] == given})


def show_schema(options: argparse.Namespace) -> int:
    from worldsize.wings.project.schema import job_schema

    show_json(_schema_of_verb(options.what) if options.what else job_schema())
    return 0


def _schema_of_verb(words: list[str]) -> dict[str, Any]:
    """Return the JSON schema of what the verb (such as `env list`) prints with `-o json`. Raise UsageError if the words
    are no verb, or the verb prints no JSON."""
    from worldsize.cli.main import ALIASES
    from worldsize.wings.project.verb_schemas import described_verbs, verb_schema

    verb, known = " ".join([ALIASES.get(words[0], words)[0], *words[1:]]), described_verbs()
    if verb in known:
        return verb_schema(verb)
    below = [name for name in known if name.startswith(verb + " ")]
    raise UsageError(f"{verb!r:.60} prints no JSON", "schema", f"one of: {', '.join(below or known)}")


def init(options: argparse.Namespace) -> int:
    from worldsize.wings.project.files import config_text, job_text
    from worldsize.wings.project.schema import job_schema

    directory = os.path.join(current_directory(), options.directory)
    if not os.path.isdir(directory):
        raise NotFound("no such directory", options.directory, "init needs an existing project")
    job = os.path.join(directory, JOB)
    if os.path.lexists(job) and not options.force:
        raise UsageError("exists already", os.path.join(options.directory, JOB), "--force overwrites it")
    cluster = find_slurm_cluster()
    answers = _collect_answers(directory, cluster, asking=not options.yes and sys.stdin.isatty())
    text = job_text(os.path.basename(os.path.abspath(directory)), answers)
    _check(text, job)
    config = config_text(cluster)
    if _write(directory, options.directory, CONFIG, config, options.force):
        try_write_decision(os.path.join(directory, CONFIG), True, os.environ, config.encode())
    _write(directory, options.directory, SCHEMA, json.dumps(job_schema(), indent=2) + "\n", force=True)
    _write(directory, options.directory, JOB, text, options.force)
    _advise(answers)
    report(f"now: worldsize run {os.path.normpath(os.path.join(options.directory, JOB))}")
    return 0


def _collect_answers(directory: str, cluster: SlurmCluster | None, asking: bool) -> InitAnswers:
    from worldsize.compute.local.reports import gpu_models
    from worldsize.wings.project.files import InitAnswers

    scripts, gpus = find_scripts(directory), len(gpu_models())
    path = scripts[0] if scripts else ""
    if asking:
        report(*_findings(scripts, gpus, cluster))
        path = _ask("script", path, lambda text: _script_error(directory, text))
    script = read_script(directory, os.path.normpath(path)) if path else None
    nodes, processes, compute = "1", str(gpus or (2 if script and script.distributed else 1)), "local"
    values: dict[str, str] = {}
    if asking:
        nodes = _ask("nodes", nodes, _count_error)
        processes = _ask("processes per node", processes, _count_error)
        known = ["local", "cluster"] if cluster else ["local"]
        one = f"one of: {', '.join(known)}"
        compute = _ask(f"compute ({', '.join(known)})", compute, lambda text: "" if text in known else one)
        for option in _required_options(script):
            question = f"{option.flag}, which {path} requires"
            values[option.name] = _ask(question, "", lambda text: "" if text else "it has no default")
    answers = InitAnswers(script, int(nodes), int(processes), compute, values)
    return _with_data_parallel(answers, directory, asking)


def _with_data_parallel(answers: InitAnswers, directory: str, asking: bool) -> InitAnswers:
    """Return the answers of `worldsize init` with the decision whether a script that does not distribute itself, which
    each rank would train on its own, is trained data-parallel. The user is asked only if `asking`."""
    script, checks = answers.script, find_provider("checks")
    if checks is None or script is None or script.distributed or answers.nodes * answers.processes == 1:
        return answers
    if not checks.is_undistributed(os.path.join(directory, script.path), answers.nodes, answers.processes):
        return answers
    wanted = "no"
    if asking:
        question = f"{script.path} does not distribute itself; one training on all ranks, by --data-parallel (yes, no)"
        wanted = _ask(question, "yes", lambda text: "" if text in ("yes", "no") else "yes or no")
    return answers._replace(undistributed=True, data_parallel=wanted == "yes")


def _findings(scripts: list[str], gpus: int, cluster: SlurmCluster | None) -> list[str]:
    scripts_found = ", ".join(scripts[:5]) + (", …" if len(scripts) > 5 else "") if scripts else "none"
    found = "Slurm ({})".format(", ".join(cluster.partitions) or "no partitions seen") if cluster else "no Slurm"
    told = "found: scripts: {}; {} GPU{}; {}".format(scripts_found, gpus, "" if gpus == 1 else "s", found)
    return [told, "Enter accepts the value in brackets."]


def _ask(question: str, default: str, error: Callable[[str], str]) -> str:
    """Prompt the user at the terminal until `error` returns "" for the answer, and return the answer; an empty line
    means `default`. Raise KeyboardInterrupt at the end of input."""
    while True:
        show_question("{}{}: ".format(question, f" [{default}]" if default else ""))
        line = sys.stdin.readline()
        if not line:
            raise KeyboardInterrupt
        answer = line.strip() or default
        wrong = error(answer)
        if not wrong:
            return answer
        report(f"  {wrong}")


def _script_error(directory: str, text: str) -> str:
    if text and not os.path.isfile(os.path.join(directory, text)):
        return f"there is no {text} in {directory}"
    return "the script must be in the project" if os.path.isabs(text) or text.startswith("..") else ""


def _count_error(text: str) -> str:
    right = text.isascii() and text.isdigit() and 0 < int(text[:10]) <= _MOST
    return "" if right else "a whole number from 1 on"


def _required_options(script: TrainingScript | None) -> list[ScriptOption]:
    return [option for option in script.options if option.default is None] if script else []


def _check(text: str, path: str) -> None:
    from worldsize.jobspec.reading.job_file import parse_job

    try:
        parse_job(text, path)
    except JobError as error:
        raise UsageError(f"no job can be made from this: {error.what}", error.where, f"write {JOB} by hand") from None


def _write(directory: str, shown: str, name: str, text: str, force: bool) -> bool:
    """Write `text` to the file `name` in the project's directory, and report this. An existing file is overwritten only
    with `force`. Return whether it was written."""
    place = os.path.normpath(os.path.join(shown, name))
    try:
        if force:
            write_document(os.path.join(directory, name), text.encode())
        else:
            with open_document(os.path.join(directory, name), new=True) as file:
                file.write(text)
    except FileExistsError:
        report(f"kept   {place}")
        return False
    report(f"wrote  {place}")
    return True


def _advise(answers: InitAnswers) -> None:
    script = answers.script
    if script is None:
        report("no Python script was found: the job prints each rank's number; replace it with your own command")
        return
    if answers.nodes * answers.processes > 1 and not script.distributed and not answers.data_parallel:
        report(f"{script.path} does not seem to use torch.distributed: each of its ranks would do all of the work")
    missing = [option.flag for option in _required_options(script) if option.name not in answers.values]
    missing += script.positionals
    if missing:
        report(f"{script.path} requires {', '.join(missing)}: add it to the command")
