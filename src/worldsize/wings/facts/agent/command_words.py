"""The words of a rank's command that may name its Python.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_PYTHON = re.compile(r"python\d?(?:\.\d+)?")
_MOST_WORDS = 200


def program_words(argv: Sequence[str]) -> list[str]:
    """Return those words of the command `argv` that may name a program: the first word, and the words that look like
    the name of a Python, also within a shell's command. Other words are left out, since they may hold secrets."""
    words = " ".join(argv).split()[:_MOST_WORDS]  # a shell's command is one word that contains many
    stripped = (word.strip("'\";()&|") for word in words)
    return [*argv[:1], *(word for word in stripped if _PYTHON.fullmatch(os.path.basename(word)))]
