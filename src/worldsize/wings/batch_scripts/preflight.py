"""Checks of a batch script before it is submitted: what would go wrong, and which options cannot be honoured on its
compute (`ScriptCheck` of the core's `service/submission/batch_script.py`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.wings.batch_scripts.script.check import check_script, script_launches
from worldsize.wings.batch_scripts.script.job import effective_script, script_origin
from worldsize.wings.batch_scripts.script.launches import Launch
from worldsize.wings.batch_scripts.script.parse import BatchScript, option_hint
from worldsize.wings.batch_scripts.script.shell_values import UNKNOWN, expanded_commands
from worldsize.wings.batch_scripts.script.size import parse_allocation_request

_HONOURED = frozenset((
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "time", "job-name", "array", "chdir",
    "gpus", "gpus-per-node", "gpus-per-task", "gres", "distribution", "exclusive", "overcommit", "quiet", "verbose",
    "comment", "mail-type", "mail-user", "parsable", "open-mode",
))  # fmt: skip
_OWN_NOTICES = {
    "output": "what it writes is kept in the run instead: worldsize logs",
    "error": "what it writes is kept in the run instead: worldsize logs",
    "signal": "no signal comes before the time limit on virtual nodes",
    "dependency": "nothing is waited for on virtual nodes: worldsize run --after RUN does that",
    "input": "the script reads no standard input",
}

_OTHER_NAMES = {
    "gpus_per_node": ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"),
    "instance_count": ("nodes", "nodelist"),
}
_MAY_CREATE_FILES = re.compile(
    r"^[^#\n]*(\b(cd|pushd|git|tar|unzip|wget|curl|cp|mv|ln|rsync|scp|sbcast)\b|<<)", re.MULTILINE
)
_PLAIN_NAME = re.compile(r"(?![/~-])[\w./+-]+")


def check(job: Job, plan: Plan) -> list[CheckResult]:
    """Check the batch script of `job`: how it starts its ranks, the Python files that it names, and on virtual nodes
    the files that it sources and its options. Return a list of CheckResult, all notices, each with its line of the
    script."""
    script = effective_script(job)
    size = parse_allocation_request(script, script_origin(job))
    found = [
        CheckResult("notice", finding.what, _line_origin(job, finding.line), finding.hint, id="batch-script")
        for finding in check_script(script, size, job.share_gpus)
    ]
    found += _missing_programs(job, script_launches(script, size), script.text)
    if plan.batch is not None and plan.batch.virtual:
        found += _missing_sources(job, script)
        found += _ignored_option_notices(job, script)
    return found


def option_origin(job: Job, key: str) -> str | None:
    """Return the place (`file:line`) of the #SBATCH option of the job's batch script that means the same as `key`, such
    as `slurm.gpus_per_node`; None if the script has no such option."""
    name = key.rpartition(".")[2]
    names = _OTHER_NAMES.get(name, (name.replace("_", "-"),))
    line = effective_script(job).line(*names)
    return f"{script_origin(job)}:{line}" if line else None


def _ignored_option_notices(job: Job, script: BatchScript) -> Iterator[CheckResult]:
    names = list(dict.fromkeys(option.name for option in script.options))
    for name in names:
        if name in _OWN_NOTICES:
            yield CheckResult(
                "notice", f"--{name}: {_OWN_NOTICES[name]}", _line_origin(job, script.line(name)), id="batch-option"
            )
    if script.value("export") in ("NONE", "NIL"):
        what = f"--export={script.value('export')}: the script sees this shell's variables anyway"
        yield CheckResult("notice", what, _line_origin(job, script.line("export")), id="batch-option")
    for option in script.foreign:
        what = f"--{option.name} is not an option of sbatch: without effect on virtual nodes"
        yield CheckResult("notice", what, _line_origin(job, option.line), option_hint(option.name), id="batch-option")
    others = {*_HONOURED, *_OWN_NOTICES, "export", *(option.name for option in script.foreign)}
    idle = [name for name in names if name not in others]
    if idle:
        what = "without effect on virtual nodes: {}".format(", ".join("--" + name for name in idle))
        yield CheckResult("notice", what, script_origin(job), id="batch-option")


def _line_origin(job: Job, line: int | None) -> str:
    """Return the place (`file:line`) of the line number `line` of the job's batch script. Without a line, return the
    source of the job file, which alone contains the option."""
    return f"{script_origin(job)}:{line}" if line else job.source


def _missing_programs(job: Job, launches: list[Launch], text: str) -> Iterator[CheckResult]:
    """Yield a notice (CheckResult) for each Python script that a command of the batch script names relative to the code
    and that does not exist there. Yield none if the batch script `text` changes the directory or runs a program that
    may create files. Skip a file that the text names a second time."""
    if job.code is None or _MAY_CREATE_FILES.search(text):
        return
    for launch in launches:
        name = next((word for word in launch.program if word.endswith(".py")), "")
        certain = launch.certain and not any(UNKNOWN in word for word in launch.program)
        if not certain or not _PLAIN_NAME.fullmatch(name) or text.count(os.path.basename(name)) > 1:
            continue
        if not os.path.exists(os.path.join(job.code, name)):
            what = f"script not found: {name} (looked in {job.code})"
            hint = "run it from the directory that it is submitted in, or name that with --code"
            yield CheckResult("notice", what, _line_origin(job, launch.line), hint, id="batch-script")


def _missing_sources(job: Job, script: BatchScript) -> Iterator[CheckResult]:
    """Yield a notice (CheckResult) for each file that the batch script reads with `source` and that does not exist on
    this machine."""
    if not script.is_shell:
        return
    home, strict = os.environ.get("HOME", ""), False
    for seen in expanded_commands(script.text, {"HOME": home, "USER": os.path.basename(home)}):
        if not seen.certain:
            continue
        if seen.words[0] == "set":
            strict = strict or any(word.startswith("-") and "e" in word for word in seen.words[1:])
        elif seen.words[0] in ("source", ".") and len(seen.words) > 1:
            path = os.path.expanduser(seen.words[1])
            known = os.sep in path and UNKNOWN not in path
            if known and not os.path.exists(os.path.join(job.code or "", path)):
                what = f"no such file on this machine: {seen.words[1]}"
                hint = "`set -e` ends the script there" if strict else "the script continues"
                yield CheckResult("notice", what, _line_origin(job, seen.line), hint, id="batch-script")
