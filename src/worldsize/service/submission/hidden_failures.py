"""Detection of programs in a command whose failure the shell does not report: before a pipe, or in the background."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins

_HANDLED_BY_COMMAND = r"PIPESTATUS|<<|\bkill\b|\btrap\b"
_SUBSTITUTION = (r"\$\([^()]*\)|`[^`]*`|[<>]\([^()]*\)", "_")
_WITHOUT_SIGNS = (
    (r"\\\n", " "),
    (r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", "_"),
    *[_SUBSTITUTION] * 10,  # for nested ones
    (r"(?<!\S)#.*", ""),
    (r"[0-9]*[<>]+[&|]?|&>+", " "),
)
"""Patterns that are replaced in a command, so that the only signs left are those that end programs: continued lines,
quotations, substitutions, comments, redirections."""

_PROGRAM = r"([^|&;()\n]+)(\|\|?|&&?|[;()\n]|$)"
"""Pattern of the words of one program and the sign that ends it."""

_TRAINING_PROGRAM = r"python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun|.*\.(py|sh)"


def hidden_failures(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return notices about programs in the job's command whose failure the shell hides, before a pipe or in the
    background. There is none for a program that does not look like training, nor where the command handles failures
    itself."""
    if job.argv or job.batch_script is not None or re.search(_HANDLED_BY_COMMAND, job.command):
        return []
    hidden = dict(_hidden_programs(job.command))
    found = []
    if "|" in hidden and "pipefail" not in job.command:
        what = f"a failure of `{hidden['|']}` before the | ends with 0"
        found.append(
            CheckResult("notice", what, origins.of("command"), "begin it with set -o pipefail;", id="hidden-failure")
        )
    if "&" in hidden and not re.search(r"\bwait\b", job.command):
        what = f"`{hidden['&']}` is terminated as soon as the command's last program has ended"
        found.append(CheckResult("notice", what, origins.of("command"), "end it with wait", id="hidden-failure"))
    return found


def _hidden_programs(command: str) -> Iterator[tuple[str, str]]:
    """Yield the sign, | or &, that hides an exit code, with the name of the program before it, for each program in a
    shell `command` that seems to train."""
    for pattern, text in _WITHOUT_SIGNS:
        command = re.sub(pattern, text, command)
    if "'" in command or '"' in command:
        return  # a quotation that has no end
    for words, sign in re.findall(_PROGRAM, command):
        program, *options = [word for word in words.split() if not re.match(r"\w+=", word)] or [""]
        trains = re.fullmatch(_TRAINING_PROGRAM, os.path.basename(program))
        if trains and sign in ("|", "&") and options[:1] not in (["-V"], ["--version"]):
            yield sign, program
