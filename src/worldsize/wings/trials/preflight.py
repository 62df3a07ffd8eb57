"""What would go wrong with a search, found before anything is created."""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_json
from worldsize.compute.base import CheckResult, Compute
from worldsize.compute.capabilities import ALLOCATION, start_place
from worldsize.service.request import KeyOrigins


def search_problems(code: str | None, name: str, compute: Compute, origins: KeyOrigins) -> list[CheckResult]:
    """Of a search: its trials do not disturb each other, and the file that it varies is a part of the code."""
    what, hint = "", "autotune.config says which JSON file of the code to vary"
    if "array" not in compute.capabilities:
        place = start_place(compute)
        what = f"{place} all trials would start at once"
        hint = "leave the allocation's shell" if place == ALLOCATION else "choose another compute"
    elif code and "://" in code:
        return []
    elif not code or not os.path.isfile(os.path.join(code, name)):
        what = "there is no {} in {}".format(name, code or "the code: the job names none")
    elif not _holds_object(os.path.join(code, name)):
        what = f"{name} holds no JSON object"
    return [CheckResult("error", what, origins.of("autotune"), hint)] if what else []


def _holds_object(path: str) -> bool:
    try:
        return isinstance(read_json(path), dict)
    except (OSError, ValueError):
        return False
