"""The rows of README's table of what is supported: what each one claims, and the tests that prove it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

REAL, SIMULATED, COMPILED, NOT_TESTED = "real", "simulated", "compiled", "not tested"


class Row(NamedTuple):
    """A row of the table.

    id           its name in reports
    what         its first cell, in Markdown
    how          REAL, SIMULATED, COMPILED (and not run), or NOT_TESTED
    limits       what the reader has to know of how it was tested
    selftest     the type of compute whose self-tests prove it; "" if none does
    report       the page in docs/evidence that proves it, without its ending; "" if a self-test or tests do
    tests        how the ids of the tests begin that prove it
    environment  the environment in the checkout that has its packages
    packages     whose versions the row shows
    programs     the commands that print the versions that it shows
    """

    id: str
    what: str
    how: str
    limits: str = ""
    selftest: str = ""
    report: str = ""
    tests: tuple[str, ...] = ()
    environment: str = ".venv"
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def read_rows(path: Path) -> tuple[Row, ...]:
    """Return the rows of a file; TypeError for a key that no row has."""

    def row(keys: dict[str, Any]) -> Row:
        return Row(**{key: tuple(value) if isinstance(value, list) else value for key, value in keys.items()})

    return tuple(map(row, yaml.safe_load(path.read_text(encoding="utf-8"))))


ROWS = read_rows(Path(__file__).with_name("rows.yml"))
