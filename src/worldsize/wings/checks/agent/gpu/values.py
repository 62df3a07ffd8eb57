"""Values as nvidia-smi writes them: numbers with units, and the words that stand where there is no value.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.numbers import parse_digits

_FAULTS = ("GPU is lost", "GPU requires reset")
_LONGEST = 120


def number(text: str) -> int | None:
    """Return the whole number that the text begins with: 81559 of "81559 MiB", 16 of "16x"; None of "N/A" and the
    like."""
    word = text.strip().split(" ", 1)[0].rstrip("x%")
    return parse_digits(word.partition(".")[0])


def known(text: str) -> str:
    """Return the text, fit for a row; "" where it says that there is no value."""
    word = plain(text).strip("[]")
    if word in ("", "N/A", "Not Supported", "Not Found", "Unknown Error") or word in _FAULTS:
        return ""
    return "" if word.startswith(("Requested functionality", "Insufficient Permissions", "ERR!")) else word


def fault_in(text: str) -> str:
    """Return the words for a GPU that does not answer, where they stand in the text: "GPU is lost"."""
    return next((fault for fault in _FAULTS if fault in text), "")


def bits(text: str) -> int | None:
    """Return the number of "0x0000000000000004"."""
    word = text.strip()
    if not word.startswith("0x") or len(word) > 18:
        return None
    try:
        return int(word, 16)
    except ValueError:
        return None


def plain(text: str) -> str:
    """Return the first line with words, without control characters, bounded: fit for a row."""
    lines = (" ".join(line.split()) for line in text[:4096].splitlines())
    line = next((line for line in lines if line), "")
    return "".join(each for each in line if each.isprintable())[:_LONGEST]


def program_name(text: str) -> str:
    """Return a process's program without its path and without arguments, which may hold secrets; "" where it is not
    told."""
    word = (known(text).split() or [""])[0].rstrip("/").rpartition("/")[2]
    return "".join(each for each in word if each.isprintable())[:40]
