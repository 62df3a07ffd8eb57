"""The verb `worldsize config trust`: the paths that are trusted although other users could have written them."""

from __future__ import annotations

import argparse
import os

from worldsize.cli.output import show, show_json
from worldsize.cli.table import table
from worldsize.common.atomic_files import printable_text
from worldsize.errors import NotFound, UsageError
from worldsize.trust.decisions import Decision, read_decisions, remove_decision, write_decision


def trust(options: argparse.Namespace) -> int:
    """Execute `config trust`: record or remove the decisions to trust the paths that the options name, or list all
    decisions. Return 0. Raise UsageError or NotFound if a path cannot be decided on."""
    removed = options.remove or ()
    for path in removed:
        _change(path, remove=True)
    for path in options.path:
        _change(path, remove=False)
    found = read_decisions(os.environ)
    if options.output == "json":
        show_json([each._asdict() for each in found])
    elif not options.path and not removed:
        rows = [[printable_text(each.path), each.kind, _state(each)] for each in found]
        show(*(table(rows, ["PATH", "KIND", "STATE"]) if rows else ["nothing has been decided yet"]))
    return 0


def _change(path: str, remove: bool) -> None:
    try:
        if remove:
            if not remove_decision(path, os.environ):
                raise NotFound(
                    "nothing has been decided about it",
                    printable_text(path),
                    "worldsize config trust lists all decisions",
                )
            return
        write_decision(path, True, os.environ)
    except OSError as error:
        raise UsageError(error.strerror or str(error), printable_text(error.filename or path)) from None


def _state(decision: Decision) -> str:
    if not decision.holds:
        return "changed since"
    return "trusted" if decision.trusted else "refused"
