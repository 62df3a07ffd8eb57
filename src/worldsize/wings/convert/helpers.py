"""The module of helpers that a converted training imports: its text, and a module name that is not in use."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from worldsize.common.atomic_files import read_if_possible
from worldsize.errors import UsageError

_NAMES = ("ddp", "ddp_ranks", "worldsize_ddp")
_TEMPLATE = os.path.join(os.path.dirname(__file__), "template", "ddp.py")


class Helpers(NamedTuple):
    """The module of helpers for a script. `before` is the current content of the file; "" if it does not exist."""

    module: str
    path: str
    text: str
    before: str


def helpers_for(directory: str, sources: Mapping[str, str]) -> Helpers:
    """Return the Helpers module for a converted training whose script is in `directory`, under a free module name. A
    name is free if no file of the training in `sources` uses it. Raise UsageError if no name is free."""
    text = read_if_possible(_TEMPLATE).decode()
    for module in _NAMES:
        path = os.path.join(directory, module + ".py")
        is_used = any(re.search(rf"\b{module}\b", source) for source in sources.values())
        before = read_if_possible(path).decode(errors="replace")
        is_free = before == text or not os.path.lexists(path)
        if is_free and not is_used and not os.path.isdir(os.path.join(directory, module)):
            return Helpers(module, path, text, before)
    raise UsageError(f"the names {', '.join(_NAMES)} are all taken", directory or ".", "rename one of these files")
