"""The secrets that a build is told: whatever is shown or written down of it is without them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.trust.secrets import secret_values
from worldsize.wings.environments.locks import masked_lock_variables
from worldsize.wings.environments.pip.requirements import referenced_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MIN_LINE_LENGTH = 8
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def secrets_of_build(
    spec: EnvironmentSpec, environ: Mapping[str, str], named: Collection[str], lock: Mapping[str, Any] | None = None
) -> list[str]:
    """The values that no output or record of a build may hold, and each line of those with several lines: values of
    variables in `named`, and of those with a secret's name that requirements, their files, variables or steps set or
    ask `environ` for. Values that are too short to be recognised are left out."""
    asked = referenced_variables([*spec.pip, *([spec.file] if spec.file else [])])
    texts = [*spec.variables.values()]
    for step in spec.steps:
        texts += [*step.pip, *step.options, *step.variables.values(), *([step.run] if step.run else [])]
    asked.update(match[1] or match[2] for text in texts for match in _VARIABLE.finditer(text))
    asked.update(named, masked_lock_variables(lock) if lock else ())
    known = {**environ, **spec.variables}
    tables: list[Mapping[str, str]] = [{name: environ[name] for name in asked if name in environ}]
    for table in (spec.variables, *(step.variables for step in spec.steps)):
        tables += [table, {name: _expand_variables(value, known) for name, value in table.items()}]
    return _with_lines(value for table in tables for value in secret_values(table, named))


def _with_lines(values: Iterable[str]) -> list[str]:
    """Also each line of those of several: a program's words are masked line by line."""
    found = list(dict.fromkeys(values))
    lines = [line.strip() for value in found if "\n" in value for line in value.split("\n")]
    return list(dict.fromkeys([*found, *(line for line in lines if len(line) >= _MIN_LINE_LENGTH)]))


def _expand_variables(text: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2]) or found[0], text)
