"""The errors of worldsize with their exit codes, from the tree in the docstring of `worldsize.errors`."""

from __future__ import annotations

import re

from scripts.documentation.tables import code, table

from worldsize import errors

_LINE = re.compile(
    r"^[│├└─ ]*(?P<name>[A-Z]\w+) +(?:exit (?:= )?(?P<code>\d|the first failing rank's) *)?(?P<text>.*)$"
)


def error_rows(_: str) -> str:
    """Return the table of errors, each with its exit code and its meaning."""
    rows = []
    for line in (errors.__doc__ or "").splitlines():
        found = _LINE.match(line)
        if found and isinstance(getattr(errors, found["name"], None), type):
            error = getattr(errors, found["name"])
            exit_code = "the first failing rank's" if error is errors.RunFailed else str(error.exit_code)
            rows.append((code(error.__name__), code(error.__bases__[0].__name__), exit_code, found["text"].strip()))
    return table(("error", "is a", "exit code", "raised for"), rows)
