"""The question at the terminal whether a project's file may decide what is executed."""

from __future__ import annotations

import re
import sys

from worldsize.cli.output import report, show_question
from worldsize.common.atomic_files import printable_text
from worldsize.trust.projects import TrustQuestion
from worldsize.trust.secrets import mask_tree

_LONGEST = 4000


def ask_about_project(question: TrustQuestion) -> bool | None:
    """Show what a project's file sets, and ask the user at the terminal whether the file is trusted. Return the answer;
    None for no answer, which is not recorded. Return None also if the file cannot be shown completely: if it is too
    long for a terminal, or if it contains what looks like a secret, in whose place a command could be."""
    path = _escaped_text(printable_text(question.path))
    lines = [f"  {_escaped_text(key)} = {_escaped_text(value)}" for key, value in question.said]
    hidden = next((key for key, value in question.said if mask_tree(value, key.rpartition(".")[2]) != value), None)
    if hidden or sum(map(len, lines)) > _LONGEST:
        what = f"what looks like a secret, in {_escaped_text(hidden)}" if hidden else "more than fits here"
        report(f"{path} sets {what}: read it, then: worldsize config trust {path}")
        return None
    report(f"{path} is a project's file that you have not trusted yet. It sets:")
    report(*lines)
    show_question("These decide what is executed, or where a password goes. Do you trust it? [y/N] ")
    try:
        answer = sys.stdin.readline()
    except (OSError, UnicodeDecodeError):
        return None
    if not answer:
        report("")
        return None
    return answer.strip().lower() in ("y", "yes")


def _escaped_text(text: str) -> str:
    """Return the whole text, with everything escaped that a terminal would not show as it is: directions, characters
    without width, long sequences of blanks."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return re.sub(" {9,}", lambda blanks: f"␣×{len(blanks[0])}", shown)
