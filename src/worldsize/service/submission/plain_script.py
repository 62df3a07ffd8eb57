"""Recognition of scripts that import only the standard library. Their imports are read without the modules that parse
scripts, which take as much time to load as the start of two ranks."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence

MOST_BYTES = 1 << 19
"""Bytes of the largest source that is parsed, which takes a second."""

_MOST_PLAIN_BYTES = 1 << 16
_PLAIN_PUNCTUATION = " -_./=,:+%@"
"""The characters, in addition to letters and digits, of a command that every shell merely splits into words."""


def plain_script(code_dir: str, argv: Sequence[str]) -> str:
    """Return the path of the script of a command `python SCRIPT …` if it is a file in the code directory and imports
    only the standard library, so that it needs no checks and has no imports to preload. "" for any other command, and
    in doubt."""
    argv = _words(argv)
    if len(argv) < 2 or os.path.basename(argv[0]).rstrip("0123456789.") != "python" or not argv[1].endswith(".py"):
        return ""
    script = os.path.join(code_dir, argv[1])
    try:
        source = read_source(script, os.path.realpath(code_dir))
        if source is None or len(source) > _MOST_PLAIN_BYTES:
            return ""
        names = set(_import_names(source.decode()))
        own = {name.partition(".")[0] for folder in (code_dir, os.path.dirname(script)) for name in os.listdir(folder)}
    except (OSError, ValueError):  # ValueError: a name with a NUL, not text, or an import that is not on its own line
        return ""
    return argv[1] if names <= sys.stdlib_module_names and not names & own else ""


def _words(argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a command `argv`. If it is `bash -c LINE` with a line that every shell splits alike, return
    the words of the line."""
    line = argv[2] if len(argv) == 3 and tuple(argv[:2]) == ("bash", "-c") else ""
    is_plain = all(each in _PLAIN_PUNCTUATION or (each.isascii() and each.isalnum()) for each in line)
    return line.split() if line and is_plain else argv


def _import_names(source: str) -> Iterator[str]:
    """Yield the name of the top-level module of each import in a Python source. Raise ValueError if a line contains
    "import" and is not a simple import."""
    for line in source.splitlines():
        if "import" not in line:
            continue
        words = line.split()
        is_one = words[0] == "import" and len(words) == 2 and "," not in line
        is_from = words[0] == "from" and words[2:3] == ["import"]
        if ";" in line or not (is_one or is_from):
            raise ValueError(line)
        yield words[1].partition(".")[0]


def read_source(path: str, root: str) -> bytes | None:
    """Return the bytes of a file; None if it is not a regular file inside `root`, is too large, or cannot be read."""
    real = os.path.realpath(path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        return None
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return None
        try:
            source = file.read(MOST_BYTES + 1)
        except OSError:
            return None
    return source if len(source) <= MOST_BYTES else None
