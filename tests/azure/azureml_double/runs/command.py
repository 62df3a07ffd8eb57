"""Expressions in a job's command, and the names of what replaces them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_EXPRESSION = re.compile(r"\$\{\{\s*(inputs|outputs)\.(\w+)\s*\}\}")
_OPTIONAL = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)


def expand(command: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """The command with each `${{inputs.x}}` and `${{outputs.x}}` replaced; of `$[[…]]` what all has a value for.

    Raises ValueError for a name that the job does not have.
    """
    values = {"inputs": inputs, "outputs": outputs}

    def value(found: re.Match[str]) -> str:
        kind, name = found.groups()
        if name not in values[kind]:
            raise ValueError("%s: the job has no %s of this name" % (found.group(0), kind[:-1]))
        return values[kind][name]

    def part(found: re.Match[str]) -> str:
        names = _EXPRESSION.findall(found.group(1))
        return found.group(1) if all(name in values[kind] for kind, name in names) else ""

    return _EXPRESSION.sub(value, _OPTIONAL.sub(part, command))
