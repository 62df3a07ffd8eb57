"""Programs of a command whose failure its shell does not tell: before a pipe, or in the background."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import groupby, pairwise

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins

_HANDLED_BY_COMMAND = re.compile(r"PIPESTATUS|<<|\bkill\b|\btrap\b")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`|[<>]\([^()]*\)")
_ASSIGNMENT = re.compile(r"\w+=")
_TRAINING_PROGRAM = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun|.*\.(py|sh)")
_NESTED = 10


def hidden_failures(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Notices. Nothing is said of what only might train, nor where the command looks to it itself."""
    if job.argv or job.batch_script is not None or _HANDLED_BY_COMMAND.search(job.command):
        return []
    hidden = dict(_hidden_programs(job.command))
    found = []
    if "|" in hidden and "pipefail" not in job.command:
        what = f"a failure of `{hidden['|']}` before the | ends with 0"
        found.append(CheckResult("notice", what, origins.of("command"), "begin it with set -o pipefail;"))
    if "&" in hidden and not re.search(r"\bwait\b", job.command):
        what = f"`{hidden['&']}` is ended as soon as the command's last program has ended"
        found.append(CheckResult("notice", what, origins.of("command"), "end it with wait"))
    return found


def _hidden_programs(command: str) -> Iterator[tuple[str, str]]:
    """Each program that seems to train, with the sign, | or &, that hides its exit code."""
    command = _QUOTED.sub("_", command)
    for _ in range(_NESTED):
        command = _SUBSTITUTION.sub("_", command)
    for line in command.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            return  # a quotation that has no end
        pieces = [(is_sign, list(piece)) for is_sign, piece in groupby(words, lambda word: _sign(word) is not None)]
        for (_, before), (is_sign, signs) in pairwise(pieces):
            sign = (_sign(signs[0]) or "").strip("()") if is_sign else ""
            program, *options = [word for word in before if word.strip("(") and not _ASSIGNMENT.match(word)] or [""]
            if options[:1] in (["-V"], ["--version"]):
                continue
            if sign in ("|", "|&", "&") and _TRAINING_PROGRAM.fullmatch(os.path.basename(program)):
                yield sign[0], program


def _sign(word: str) -> str | None:
    """A sign that ends a command, not one of a redirection; None for a word."""
    return word if word and not word.strip("|&;()") and word not in ("(", "((") else None
