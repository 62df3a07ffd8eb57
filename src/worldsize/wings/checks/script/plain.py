"""Scripts of which there is nothing to say: told by a look at their imports, without the modules that read scripts,
whose load takes as long as the start of two ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from worldsize.wings.checks.script.reading.source_file import read_source

_MOST_BYTES = 1 << 16


def may_start_python(argv: Sequence[str]) -> bool:
    """Whether a command names a Python file or module. Of any other there is no script to read."""
    return any(".py" in word or "-m" in word for word in argv)


def is_plain(code_dir: str, argv: Sequence[str]) -> bool:
    """Whether a command is `python SCRIPT`, of a script of the code that imports the standard library alone: no rule
    has anything to say of it. False in doubt."""
    if len(argv) < 2 or os.path.basename(argv[0]).rstrip("0123456789.") != "python" or not argv[1].endswith(".py"):
        return False
    script = os.path.join(code_dir, argv[1])
    try:
        source = read_source(script, os.path.realpath(code_dir))
        if source is None or len(source) > _MOST_BYTES:
            return False
        names = set(_import_names(source.decode()))
        own = {name.partition(".")[0] for folder in (code_dir, os.path.dirname(script)) for name in os.listdir(folder)}
    except (OSError, ValueError):  # ValueError: a name with a NUL, no text, or an import that is no line of its own
        return False
    return names <= sys.stdlib_module_names and not names & own


def _import_names(source: str) -> Iterator[str]:
    """The top-level modules of all imports. ValueError where a line with that word is another."""
    for line in source.splitlines():
        if "import" not in line:
            continue
        words = line.split()
        is_one = words[0] == "import" and len(words) == 2 and "," not in line
        is_from = words[0] == "from" and words[2:3] == ["import"]
        if ";" in line or not (is_one or is_from):
            raise ValueError(line)
        yield words[1].partition(".")[0]
