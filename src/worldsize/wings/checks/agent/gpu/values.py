"""Parsers for values as nvidia-smi writes them: numbers with units, and the words that mean that there is no value.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.numbers import parse_digits

_FAULTS = ("GPU is lost", "GPU requires reset")
_LONGEST = 120


def number(text: str) -> int | None:
    """Return the whole number at the beginning of the text: 81559 for "81559 MiB", 16 for "16x"; None for "N/A" and the
    like."""
    word = text.strip().split(" ", 1)[0].rstrip("x%")
    return parse_digits(word.partition(".")[0])


def known(text: str) -> str:
    """Return the text in a form for a row; "" if it means that there is no value."""
    word = plain(text).strip("[]")
    if word in ("", "N/A", "Not Supported", "Not Found", "Unknown Error") or word in _FAULTS:
        return ""
    return "" if word.startswith(("Requested functionality", "Insufficient Permissions", "ERR!")) else word


def fault_in(text: str) -> str:
    """Return the words for a GPU that does not answer, such as "GPU is lost", if the text contains them; otherwise
    ""."""
    return next((fault for fault in _FAULTS if fault in text), "")


def bits(text: str) -> int | None:
    """Return the number in a text such as "0x0000000000000004"; None if it is not such a number."""
    word = text.strip()
    if not word.startswith("0x") or len(word) > 18:
        return None
    try:
        return int(word, 16)
    except ValueError:
        return None


def plain(text: str) -> str:
    """Return the first line that is not blank, without control characters and with limited length, in a form for a
    row."""
    lines = (" ".join(line.split()) for line in text[:4096].splitlines())
    line = next((line for line in lines if line), "")
    return "".join(each for each in line if each.isprintable())[:_LONGEST]


def program_name(text: str) -> str:
    """Return a process's program without its path and without arguments, which may contain secrets; "" if it is not
    known."""
    word = (known(text).split() or [""])[0].rstrip("/").rpartition("/")[2]
    return "".join(each for each in word if each.isprintable())[:40]
