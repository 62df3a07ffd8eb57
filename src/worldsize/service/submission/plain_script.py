"""Scripts that import the standard library alone: told by a look at their imports, without the modules that read
scripts, whose load takes as long as the start of two ranks."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence

MOST_BYTES = 1 << 19
"""To parse as much takes a second."""

_MOST_PLAIN_BYTES = 1 << 16
_PLAIN_PUNCTUATION = " -_./=,:+%@"
"""What stands between letters and digits in a command that no shell reads otherwise than word by word."""


def plain_script(code_dir: str, argv: Sequence[str]) -> str:
    """Return the script of a command `python SCRIPT …`, where it is of the code and imports the standard library alone:
    there is nothing to check of it, and nothing to import before it. "" for another one, and in doubt."""
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
    except (OSError, ValueError):  # ValueError: a name with a NUL, no text, or an import that is no line of its own
        return ""
    return argv[1] if names <= sys.stdlib_module_names and not names & own else ""


def _words(argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a command, those of a plain line for a shell too."""
    line = argv[2] if len(argv) == 3 and tuple(argv[:2]) == ("bash", "-c") else ""
    is_plain = all(each in _PLAIN_PUNCTUATION or (each.isascii() and each.isalnum()) for each in line)
    return line.split() if line and is_plain else argv


def _import_names(source: str) -> Iterator[str]:
    """Yield the top-level modules of all imports. ValueError where a line with that word is another."""
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
    """Return a file's bytes; None where it is no plain file inside `root`, too large, or cannot be read."""
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
