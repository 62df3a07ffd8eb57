"""Lock files: what an environment holds, without what is of one machine alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_LOCAL = ("prefix", "base", "upon", "created", "took", "host", "clobbered", "steps")


def lock_text(description: Mapping[str, Any]) -> str:
    """The lock file of an environment, readable, `format` first. What is built from it is the same package set."""
    kept = {key: value for key, value in description.items() if key not in _LOCAL}
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
