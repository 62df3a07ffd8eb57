"""The values of the variables of a shell script at each of its commands, as far as they are certain. Pure."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from worldsize.wings.batch_scripts.script.shell_words import (
    ARITHMETIC,
    LITERAL,
    VARIABLE,
    ShellCommand,
    ShellWord,
    WordPart,
    parse_commands,
)

UNKNOWN = "\0"
"""Placeholder in a word for a part of unknown value."""

_LONGEST = 1 << 16
_MOST_VARIABLES = 2000
_MOST_KEPT = 1_000_000
_LONGEST_EXPRESSION = 1000
_LARGEST = 1 << 63
"""The last of the limits beyond which a value, or the variables of a script, count as not known. A few lines of a
script could otherwise request any amount of memory."""

_BLANKS = re.compile(r"[ \t\n]+")
"""The blanks at which a shell splits values. It splits at no other blank of Unicode."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_BRACES = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])(.*))?", re.DOTALL)
_NAME = re.compile(r"\$?\{?\b([A-Za-z_][A-Za-z0-9_]*)\}?")
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_EXPRESSION = re.compile(r"[-+*/%() \t\n0-9]*")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: int(left / right),
    ast.Mod: operator.mod,
}
_DECLARING = ("export", "declare", "typeset", "readonly", "local")
_HARMLESS = re.compile(
    r"(^|/)(activate|conda\.sh|mamba\.sh|modules\.sh|lmod\.sh|\.?bashrc|\.?bash_profile|\.?profile|bash)$"
)


class ShellVariable(NamedTuple):
    """The value of a variable (None: not known), the line that set it (0: before the script), and whether it is
    exported to commands."""

    value: str | None
    line: int = 0
    exported: bool = False


class ExpandedCommand(NamedTuple):
    """A command, its words expanded (with `UNKNOWN` where that is not possible), and the variables that it finds."""

    line: int
    words: tuple[str, ...]
    certain: bool
    variables: Mapping[str, ShellVariable]


def expanded_commands(text: str, given: Mapping[str, str]) -> list[ExpandedCommand]:
    """Return every simple command of the shell script `text` in order, with its words expanded and the variables that
    it finds. `given` are the variables with which the script starts. The initial value of any other variable is not
    known."""
    found: list[ExpandedCommand] = []
    variables = {name: ShellVariable(value, 0, True) for name, value in given.items()}
    for command in parse_commands(text):
        variables = _variables_after(command, variables, found)
    return found


def _variables_after(
    command: ShellCommand, before: dict[str, ShellVariable], found: list[ExpandedCommand]
) -> dict[str, ShellVariable]:
    if len(found) * len(before) > _MOST_KEPT:
        before = {}
    variables = dict(before) if found and found[-1].variables is before else before
    words = list(command.words)
    count = next((at for at, word in enumerate(words) if not _is_assignment(word)), len(words))
    own = dict(_assigned(command, word, variables) for word in words[:count])
    words = words[count:]
    if not words:
        for name, variable in own.items():
            _set_variable(name, variable, variables)
        return variables
    texts = tuple(text for word in words for text in word_fields(word, variables))
    if not texts:
        return variables
    exported = {name: variable._replace(exported=True) for name, variable in own.items()}
    found.append(ExpandedCommand(command.line, texts, command.certain, {**variables, **exported} if own else variables))
    if not own and texts[0] in (*_DECLARING, "unset", "read"):
        variables = dict(variables)
    if texts[0] in _DECLARING:
        _declare(command, words[1:], texts, variables)
    elif texts[0] in ("unset", "read"):
        for name in texts[1:]:
            value = "" if texts[0] == "unset" and command.certain else None
            _set_variable(name, ShellVariable(value, command.line), variables)
    elif _may_change_variables(command, texts):
        variables = {name: each._replace(value=None) if each.line else each for name, each in variables.items()}
    return variables


def _declare(
    command: ShellCommand, words: list[ShellWord], texts: tuple[str, ...], variables: dict[str, ShellVariable]
) -> None:
    exports = texts[0] == "export" or any(re.match(r"-[a-zA-Z]*x", text) for text in texts[1:])
    for word in words:
        text = expand_word(word, variables)
        if _is_assignment(word):
            _set_variable(*_assigned(command, word, variables, exports), variables)
        elif exports and text in variables:
            variables[text] = variables[text]._replace(exported=True)


def _set_variable(name: str, variable: ShellVariable, variables: dict[str, ShellVariable]) -> None:
    if name in variables or len(variables) < _MOST_VARIABLES:
        variables[name] = variable


def _may_change_variables(command: ShellCommand, texts: tuple[str, ...]) -> bool:
    if texts[0] == "eval":
        return not any("conda" in part.text or "mamba" in part.text for word in command.words for part in word)
    return texts[0] in ("source", ".") and not (len(texts) > 1 and _HARMLESS.search(texts[1]))


def _is_assignment(word: ShellWord) -> bool:
    return bool(_ASSIGNMENT.match(_leading_literal(word)))


def _leading_literal(word: ShellWord) -> str:
    text = ""
    for part in word:
        if part.kind != LITERAL:
            break
        text += part.text
    return text


def _assigned(
    command: ShellCommand, word: ShellWord, variables: Mapping[str, ShellVariable], exports: bool = False
) -> tuple[str, ShellVariable]:
    """Return the name of the shell variable that the assignment `word` sets, and the variable after the assignment."""
    match = _ASSIGNMENT.match(_leading_literal(word))
    assert match is not None
    text = expand_word(word, variables)
    known = command.certain and UNKNOWN not in text and not match[2]
    exported = exports or (match[1] in variables and variables[match[1]].exported)
    return match[1], ShellVariable(text[match.end() :] if known else None, command.line, exported)


def expand_word(word: ShellWord, variables: Mapping[str, ShellVariable]) -> str:
    return "".join(_part_values(word, variables))


def _part_values(word: ShellWord, variables: Mapping[str, ShellVariable]) -> list[str]:
    """Return the expanded value of each part of a shell word; `UNKNOWN` alone if the values are too long together."""
    values: list[str] = []
    length = 0
    for part in word:
        value = _part_value(part, variables)
        length += len(value) if part.kind != LITERAL else 0
        if length > _LONGEST:
            return [UNKNOWN]
        values.append(value)
    return values


def word_fields(word: ShellWord, variables: Mapping[str, ShellVariable]) -> list[str]:
    """Return the words that a shell makes of `word`: the word expanded with `variables` and, in its unquoted parts,
    split at blanks."""
    found: list[str] = []
    open_field: str | None = None
    for part, value in zip(word, _part_values(word, variables), strict=False):
        first, *more = [value] if part.kind == LITERAL or part.quoted else _BLANKS.split(value)
        if first or part.kind == LITERAL or part.quoted:
            open_field = (open_field or "") + first
        for piece in more:
            if open_field is not None:
                found.append(open_field)
            open_field = piece or None
    return found if open_field is None else [*found, open_field]


def _part_value(part: WordPart, variables: Mapping[str, ShellVariable]) -> str:
    if part.kind == LITERAL:
        return part.text
    if part.kind == ARITHMETIC:
        number = arithmetic_value(part.text, variables)
        return UNKNOWN if number is None else str(number)
    if part.kind != VARIABLE:
        return UNKNOWN
    match = _BRACES.fullmatch(part.text)
    value = variables.get(match[1], ShellVariable(None)).value if match else None
    if match is None or value is None:
        return UNKNOWN
    if match[2] and not value:
        if match[2][0] != ":":
            return UNKNOWN  # the variable may be empty or unset, and the result differs
        return UNKNOWN if re.search(r"[$`\\\"']", match[3]) else match[3]
    return value


def arithmetic_value(text: str, variables: Mapping[str, ShellVariable]) -> int | None:
    """Return the value of `text`, the expression in a shell's `$(( ))`, as an integer; None if a part of it is not
    known or not supported."""

    def digits(name: re.Match[str]) -> str:
        value = variables.get(name[1], ShellVariable(None)).value or ""
        return value if _NUMBER.fullmatch(value) else UNKNOWN

    source = _NAME.sub(digits, text) if len(text) <= _LONGEST_EXPRESSION else UNKNOWN
    if not _EXPRESSION.fullmatch(source):
        return None
    try:
        return _expression_value(ast.parse(f"({source})", mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _expression_value(node: ast.expr) -> int:
    """Compute the value of a shell's arithmetic expression, given as a Python syntax tree. Raise ValueError for an
    expression that the shell would interpret differently, and ArithmeticError."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        number = _OPERATORS[type(node.op)](_expression_value(node.left), _expression_value(node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = -_expression_value(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        number = node.value
    else:
        raise ValueError
    if abs(number) >= _LARGEST:
        raise OverflowError
    return number
