"""Whether a project's file may decide what is executed: the question at a terminal, and `worldsize config trust`."""

from __future__ import annotations

import argparse
import os
import sys

from worldsize.cli.shared import clean, print_json, say, table
from worldsize.environment.secrets import mask_tree
from worldsize.errors import NotFound, UsageError
from worldsize.plan.files import display
from worldsize.trust.decisions import Decision, decide, decisions, forget
from worldsize.trust.projects import Question

_LONGEST = 160
_SHOWN = 20


def ask_about_project(question: Question) -> bool | None:
    """What the person at the terminal answers; None for no answer, which is not kept."""
    say("%s is a project's file that you have not decided about. It sets:" % display(question.path))
    for key, value in question.said[:_SHOWN]:
        text = clean(str(mask_tree(value, key.rpartition(".")[2]))).replace("\n", " ")
        say("  %s = %s" % (clean(key), text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"))
    if len(question.said) > _SHOWN:
        say("  … and %d more" % (len(question.said) - _SHOWN))
    sys.stderr.write("These decide what is executed, or where a password goes. Do you trust it? [y/N] ")
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except (OSError, UnicodeDecodeError):
        return None
    if not answer:
        say("")
        return None
    return answer.strip().lower() in ("y", "yes")


def trust(options: argparse.Namespace) -> int:
    """Decide about the paths, or list what was decided."""
    removed = options.remove or ()
    for path in removed:
        _change(path, remove=True)
    for path in options.path:
        _change(path, remove=False)
    found = decisions(os.environ)
    if options.output == "json":
        print_json([each._asdict() for each in found])
    elif not options.path and not removed:
        rows = [[display(each.path), each.kind, _state(each)] for each in found]
        sys.stdout.write(table(rows, ["PATH", "KIND", "STATE"]) + "\n" if rows else "nothing was decided yet\n")
    return 0


def _change(path: str, remove: bool) -> None:
    try:
        if remove:
            if not forget(path, os.environ):
                raise NotFound("nothing was decided about it", display(path), "worldsize config trust lists what was")
            return
        decide(path, True, os.environ)
    except OSError as error:
        raise UsageError(error.strerror or str(error), display(error.filename or path)) from None


def _state(decision: Decision) -> str:
    if not decision.holds:
        return "changed since"
    return "trusted" if decision.trusted else "refused"
