"""Replacement of `${{inputs.x}}` and `${{outputs.x}}` in a command, text for text, before any shell reads it.

The variables of the shell (`$VAR`, `${VAR}`, `$$`, `$(…)`) are left for bash, at run time, per rank. The part in `$[[ …
]]` is left out if an optional input in it has no value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from worldsize.errors import JobError
from worldsize.jobspec.job import InputValue

_EXPRESSION = r"(?s)\$\{\{((?:(?!\$\{\{|\}\}).)*)\}\}"
_OPTIONAL = r"(?s)\$\[\[((?:(?!\$\[\[|\]\]).)*)\]\]"
"""Pattern that matches up to the next beginning, so that the search is linear in the text's length."""

_LONGEST = 1 << 24


def resolve_expressions(
    command: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    where: str | None = None,
    optional: Collection[str] = (),
) -> str:
    """Return the job's `command` with every `${{inputs.NAME}}` and `${{outputs.NAME}}` replaced by the text that
    `inputs` or `outputs` has for the name. Replaced text is not searched again. A part `$[[ … ]]` is left out if it
    names an input that is absent.

    `optional` names the inputs that may be absent and are. Raise JobError, at `where`, for a name that the job does not
    have (with its nearest name), for an absent optional input outside `$[[ ]]`, and for anything else in `${{ }}`.
    """
    if "${{" not in command:
        return command
    names = _Names(inputs, outputs, where, optional)
    parts: list[str] = []
    end = 0
    for match in re.finditer(_OPTIONAL, command):
        parts.append(names.replace(command[end : match.start()]))
        parts.append(names.optional_part(match))
        end = match.end()
    parts.append(names.replace(command[end:]))
    return "".join(parts)


def input_text(value: InputValue) -> str:
    """Return the text by which the value of an input replaces `${{inputs.NAME}}` in a command: a literal as Python
    writes it (True, 1e-05), data as its path; "" if it has no path.

    Booleans and numbers are written as Azure's own client sends them to its service.
    """
    if isinstance(value, tuple):
        return value.path or ""
    return str(value)


class _Names:
    """The names that the expressions of one command may contain."""

    def __init__(
        self, inputs: Mapping[str, str], outputs: Mapping[str, str], where: str | None, optional: Collection[str]
    ) -> None:
        self.values = {"inputs": inputs, "outputs": outputs}
        self.where = where
        self.absent = frozenset(optional) - inputs.keys()
        self.length = 0

    def replace(self, text: str) -> str:
        replaced = re.sub(_EXPRESSION, self.value, text)
        if "${{" in re.sub(_EXPRESSION, "", text):
            begin = text.rindex("${{")
            raise JobError(f"{text[begin:]!r:.40} has no closing }}}}", self.where)
        return replaced

    def optional_part(self, match: re.Match[str]) -> str:
        inside = match[1]
        names = [found.strip() for found in re.findall(_EXPRESSION, inside)]
        if not names:
            return match[0]
        if any(name.startswith("inputs.") and name[len("inputs.") :] in self.absent for name in names):
            return ""
        return self.replace(inside)

    def value(self, match: re.Match[str]) -> str:
        expression = f"${{{{{match[1]}}}}}"
        kind, _, name = match[1].strip().partition(".")
        if kind == "search_space":
            raise JobError(f"{expression:.80} belongs to a sweep, which cannot be run here", self.where)
        if kind not in self.values or not name:
            hint = "write ${{inputs.name}} or ${{outputs.name}}"
            raise self.error(expression, "is not an expression known here", hint)
        values = self.values[kind]
        if name in values:
            self.length += len(values[name])
            if self.length > _LONGEST:
                raise self.error(expression, f"makes it longer than {_LONGEST} characters", None)
            return values[name]
        if kind == "inputs" and name in self.absent:
            raise self.error(expression, "names an optional input without a value", "put it inside $[[ ]]")
        raise self.unknown_error(expression, kind, name)

    def error(self, expression: str, what: str, hint: str | None) -> JobError:
        return JobError(f"{expression:.80} {what}", self.where, hint)

    def unknown_error(self, expression: str, kind: str, name: str) -> JobError:
        from worldsize.jobspec.reading.nearest import did_you_mean

        names = [*self.values[kind], *(self.absent if kind == "inputs" else ())]
        hint = did_you_mean(name, names, f"the job's {kind}") or f"the job has no {kind}"
        return self.error(expression, f"names none of the job's {kind}", hint)
