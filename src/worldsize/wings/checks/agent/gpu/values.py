"""Parsers for values as nvidia-smi writes them: numbers with units, and the words that mean that there is no value.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.numbers import parse_digits

_FAULTS = ("GPU is lost", "GPU requires reset")
_LONGEST = 120


def number(text: str) -> int | None:
    """Return the whole number at the beginning of a value as nvidia-smi writes it: 81559 for "81559 MiB", 16 for "16x";
    None for "N/A" and the like."""
    word = text.strip().split(" ", 1)[0].rstrip("x%")
    return parse_digits(word.partition(".")[0])


def known(text: str) -> str:
    """Return a value as nvidia-smi writes it in one short printable line; "" if it means that there is no value, such
    as "N/A"."""
    word = plain(text).strip("[]")
    if word in ("", "N/A", "Not Supported", "Not Found", "Unknown Error") or word in _FAULTS:
        return ""
    return "" if word.startswith(("Requested functionality", "Insufficient Permissions", "ERR!")) else word


def fault_in(text: str) -> str:
    """Return the words for a GPU that does not answer, such as "GPU is lost", if nvidia-smi's `text` contains them;
    otherwise ""."""
    return next((fault for fault in _FAULTS if fault in text), "")


def bits(text: str) -> int | None:
    """Return the number in a hexadecimal text such as "0x0000000000000004"; None if `text` is not such a number."""
    word = text.strip()
    if not word.startswith("0x") or len(word) > 18:
        return None
    try:
        return int(word, 16)
    except ValueError:
        return None


def plain(text: str) -> str:
    """Return the first line of `text` that is not blank, without control characters and with at most 120 characters, in
    a form for a row of the node check."""
    lines = (" ".join(line.split()) for line in text[:4096].splitlines())
    line = next((line for line in lines if line), "")
    return "".join(each for each in line if each.isprintable())[:_LONGEST]


def program_name(text: str) -> str:
    """Return the program of a process without its path and without arguments, which may contain secrets, from `text`,
    its command as the driver reports it; "" if it is not known."""
    word = (known(text).split() or [""])[0].rstrip("/").rpartition("/")[2]
    return "".join(each for each in word if each.isprintable())[:40]
