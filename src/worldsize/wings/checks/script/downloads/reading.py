"""The downloads of a script, and of the commands that start it or prepare for it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator

from worldsize.wings.checks.script.downloads.commands import command_download
from worldsize.wings.checks.script.downloads.download import CallsOf, Download, DownloadCall
from worldsize.wings.checks.script.downloads.hubs import hub_download, torch_hub_download
from worldsize.wings.checks.script.downloads.web import data_set_download, shell_download, web_download
from worldsize.wings.checks.script.reading.command_line import ScriptCommand
from worldsize.wings.checks.script.reading.decisions import Decisions
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.reading.shell_text import ShellCommand, shell_commands

_CALLS: tuple[Callable[[DownloadCall], Download | None], ...] = (
    hub_download, torch_hub_download, web_download, shell_download, data_set_download,
)  # fmt: skip
_NO_STARTERS = frozenset((
    "echo", "printf", "cp", "mv", "rm", "ln", "ls", "cat", "head", "tail", "grep", "sed", "awk", "test", "[", "[[",
    "chmod", "chown", "tar", "zip", "touch", "mkdir", "rsync", "scp", "diff", "wc", "find", "export", "sbcast", "black",
    "ruff", "flake8", "mypy", "pylint", "git", "wget", "curl", "pip", "md5sum", "sha256sum", "stat", "file", "tee",
))  # fmt: skip
_MOST_SCRIPTS = 20


def downloads_of(program: Program) -> Iterator[tuple[ast.Call, Download]]:
    """Yield pairs (call, Download) for the calls in a script that download and that some rank certainly executes, in
    their order."""
    decisions, calls = Decisions(program), CallsOf(program)
    for node in program.index.calls:
        found = _download(DownloadCall(calls, node))
        if found is not None and decisions.is_executed(node):
            yield node, found


def _download(call: DownloadCall) -> Download | None:
    return next((found for rule in _CALLS if (found := rule(call)) is not None), None)


def downloads_in_text(text: str) -> Iterator[Download]:
    """Yield the Downloads of the commands in a shell text, such as `pip install` or `wget`, each once. Commands that
    depend on a test are skipped unless the test is about ranks."""
    commands = [command for command in shell_commands(text) if not command.doubtful]
    found = dict.fromkeys(each for each in map(command_download, commands) if each is not None)
    yield from found


def scripts_in_text(text: str) -> list[ScriptCommand]:
    """Return the Python scripts and modules that the commands in a shell text may start, each as a ScriptCommand, 20 at
    most."""
    found = [script for command in shell_commands(text) for script in _scripts(command)]
    return found[:_MOST_SCRIPTS]


def _scripts(command: ShellCommand) -> Iterator[ScriptCommand]:
    if os.path.basename(command.words[0]) in _NO_STARTERS:
        return
    for number, word in enumerate(command.words):
        following = command.words[number + 1 :]
        if word == "-m" and following and re.fullmatch(r"[\w.]+", following[0]):
            yield ScriptCommand("", following[0], following[1:], directory=command.directory)
        elif word.endswith(".py") and re.fullmatch(r"[\w./-]+", word) and not word.startswith("-"):
            yield ScriptCommand(word, "", following, directory=command.directory)
            return
