"""The option `convert --check`: findings from the first steps of a training, with lines of the user's files."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from worldsize.errors import UsageError
from worldsize.wings.convert.check.trials import Training, run_trials
from worldsize.wings.convert.check.verdict import CONVERTED, Finding, judge
from worldsize.wings.convert.converted_files import ConvertedFiles


class FoundLine(NamedTuple):
    """A finding of `convert --check` with its place. `line` is None if it is not known."""

    path: str
    line: int | None
    text: str
    is_error: bool


class CheckResult(NamedTuple):
    """The result of `convert --check`. `summary` states what was found to be the same; it is empty if something is
    wrong or nothing could be compared."""

    found: tuple[FoundLine, ...]
    summary: str

    @property
    def is_right(self) -> bool:
        return bool(self.summary)

    def lines(self) -> list[str]:
        """Return the lines to print on a terminal: one for each finding with its path and line, and the summary."""
        found = []
        for path, line, text, is_error in self.found:
            place = path if line is None else f"{path}:{line}"
            found.append(f"{place}: check: {'error: ' * is_error}{text}")
        return [*found, *([f"check: {self.summary}"] if self.summary else [])]

    def as_json(self) -> dict[str, Any]:
        return {"is_right": self.is_right, "summary": self.summary, "found": [each._asdict() for each in self.found]}


def check_training(
    files: ConvertedFiles, arguments: Sequence[str], tell: Callable[[str], None], seconds: float
) -> CheckResult:
    """Run the first steps of a training in its original and its converted form, with the script's arguments, for at
    most `seconds`. `tell` shows a transient line; "" removes it. Raise UsageError if nothing can be run."""
    project = _project_of(files.script)
    texts = {os.path.relpath(path, project): text for path, text in files.after.items()}
    script, helpers = (os.path.relpath(path, project) for path in (files.script, files.helpers))
    try:
        with tempfile.TemporaryDirectory(prefix="worldsize-check-") as directory:
            trials = run_trials(Training(project, script, arguments, texts, helpers), directory, tell, seconds)
    except OSError as error:
        raise UsageError(f"cannot be checked: {error.strerror or error}", files.script) from None
    finally:
        tell("")
    verdict = judge(trials)
    found = [_found_line(each, project, files) for each in verdict.findings]
    if verdict.obstacle is not None:
        found.append(_found_line(verdict.obstacle, project, files))
    if trials.network:
        found.append(FoundLine(files.script, None, f"the network was not cut: {trials.network}", False))
    return CheckResult(tuple(found), verdict.summary)


def _project_of(script: str) -> str:
    """Return the directory to copy for the check of a converted script: the current directory, or the directory of a
    script that is outside of it."""
    is_inside = os.path.realpath(script).startswith(os.path.join(os.path.realpath(os.curdir), ""))
    return os.curdir if is_inside else os.path.dirname(script) or os.curdir


def _found_line(finding: Finding, project: str, files: ConvertedFiles) -> FoundLine:
    """Return a finding of `convert --check` as a FoundLine with its place as the user knows it: a line of the original
    file, also for a finding in the converted one."""
    if finding.place is None:
        return FoundLine(files.script, None, finding.text, finding.is_error)
    path, line = os.path.normpath(os.path.join(project, finding.place.path)), finding.place.line
    if finding.version == CONVERTED and path in files.after:
        line = original_line(files.before[path], files.after[path], line)
    return FoundLine(path, line, finding.text, finding.is_error)


def original_line(before: str, after: str, line: int) -> int:
    """Return the number of the line in the text `before` that became line number `line` of the text `after`, or that
    precedes it. Both count from 1."""
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    for _, start, end, changed, changed_end in blocks:
        if changed <= line - 1 < changed_end:
            return min(start + line - 1 - changed, max(start, end - 1)) + 1
    return 1
