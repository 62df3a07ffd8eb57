"""Import of argparse without translations. There are no translations of its words, and the search for them takes 2 ms
of each start."""

from __future__ import annotations

import sys


def import_argparse() -> None:
    """Import argparse with a temporary module in place of `gettext`, from which argparse imports two functions. Do
    nothing if the process has already loaded either module."""
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    stand_in = type(sys)("gettext")
    stand_in.__dict__.update(gettext=_same, ngettext=_by_number)
    sys.modules["gettext"] = stand_in
    try:
        import argparse  # noqa: F401
    finally:
        del sys.modules["gettext"]


def _same(message: str) -> str:
    return message


def _by_number(one: str, many: str, number: int) -> str:
    return one if number == 1 else many
