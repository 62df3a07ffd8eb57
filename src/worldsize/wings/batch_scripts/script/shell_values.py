"""What the variables of a shell script hold when each of its commands is reached, as far as that is certain. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
"""Stands in a word for a part of unknown value."""

_LONGEST = 1 << 16
_MOST_VARIABLES = 2000
_MOST_KEPT = 1_000_000
_DIGITS = 19
_LARGEST = 1 << 63
"""Beyond these a value, or the variables of a script, count as not known: a few lines could ask for any memory."""

_BLANKS = re.compile(r"[ \t\n]+")
"""A shell splits values there, and at no other blank of Unicode."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_BRACES = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])(.*))?", re.DOTALL)
_TOKEN = re.compile(r"[ \t\n]*(?:([0-9]+)|\$?\{?([A-Za-z_][A-Za-z0-9_]*)\}?|(\*\*|[-+*/%()]))")
_DECLARING = ("export", "declare", "typeset", "readonly", "local")
_HARMLESS = re.compile(
    r"(^|/)(activate|conda\.sh|mamba\.sh|modules\.sh|lmod\.sh|\.?bashrc|\.?bash_profile|\.?profile|bash)$"
)


class ShellVariable(NamedTuple):
    """What a variable holds (None: not known), where it was set (0: before the script), whether commands see it."""

    value: str | None
    line: int = 0
    exported: bool = False


class ExpandedCommand(NamedTuple):
    """A command, its words expanded (`UNKNOWN` where that cannot be done), and the variables that it finds."""

    line: int
    words: tuple[str, ...]
    certain: bool
    variables: Mapping[str, ShellVariable]


def expanded_commands(text: str, given: Mapping[str, str]) -> list[ExpandedCommand]:
    """Every command of a script that starts with the variables `given`; any other name's value is not known then."""
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
    own: dict[str, ShellVariable] = {}
    count = next((at for at, word in enumerate(words) if not _is_assignment(word)), len(words))
    for word in words[:count]:
        name, value = _assignment_of(word, variables)
        own[name] = ShellVariable(value if command.certain else None, command.line, _is_exported(name, variables))
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
            name, value = _assignment_of(word, variables)
            exported = exports or _is_exported(name, variables)
            _set_variable(name, ShellVariable(value if command.certain else None, command.line, exported), variables)
        elif exports and text in variables:
            variables[text] = variables[text]._replace(exported=True)


def _set_variable(name: str, variable: ShellVariable, variables: dict[str, ShellVariable]) -> None:
    if name in variables or len(variables) < _MOST_VARIABLES:
        variables[name] = variable


def _is_exported(name: str, variables: Mapping[str, ShellVariable]) -> bool:
    return name in variables and variables[name].exported


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


def _assignment_of(word: ShellWord, variables: Mapping[str, ShellVariable]) -> tuple[str, str | None]:
    match = _ASSIGNMENT.match(_leading_literal(word))
    assert match is not None
    text = expand_word(word, variables)[match.end() :]
    return match[1], None if UNKNOWN in text or match[2] else text


def expand_word(word: ShellWord, variables: Mapping[str, ShellVariable]) -> str:
    texts: list[str] = []
    length = 0
    for part in word:
        value = _part_value(part, variables)
        length += len(value) if part.kind != LITERAL else 0
        if length > _LONGEST:
            return "".join((*texts, UNKNOWN))
        texts.append(value)
    return "".join(texts)


def word_fields(word: ShellWord, variables: Mapping[str, ShellVariable]) -> list[str]:
    """The word expanded and, where it is not quoted, split at blanks."""
    found: list[str] = []
    text, any_text, length = "", False, 0
    for part in word:
        value = _part_value(part, variables)
        length += len(value) if part.kind != LITERAL else 0
        if length > _LONGEST:
            return [UNKNOWN]
        if part.kind == LITERAL or part.quoted:
            text += value
            any_text = True
            continue
        pieces = [piece for piece in _BLANKS.split(value) if piece]
        starts_new, ends = bool(_BLANKS.match(value)), bool(_BLANKS.match(value[-1:]))
        for index, piece in enumerate(pieces):
            if (index or starts_new) and any_text:
                found.append(text)
                text = ""
            text, any_text = text + piece, True
        if ends and any_text:
            found.append(text)
            text, any_text = "", False
    return [*found, text] if any_text else found


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
            return UNKNOWN  # empty is not unset, and which it is we do not know
        return UNKNOWN if re.search(r"[$`\\\"']", match[3]) else match[3]
    return value


def arithmetic_value(text: str, variables: Mapping[str, ShellVariable]) -> int | None:
    """The value of what stands in `$(( ))`; None where a part of it is not known, or not understood."""
    text = text.rstrip(" \t\n")
    if len(text) > _LONGEST:
        return None
    tokens: list[str | int] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        at = match.end()
        if match[1]:
            if len(match[1]) > _DIGITS:
                return None
            tokens.append(int(match[1]))
        elif match[2]:
            value = variables.get(match[2], ShellVariable(None)).value
            if value is None or len(value) > _DIGITS or not re.fullmatch(r"-?[0-9]+", value):
                return None
            tokens.append(int(value))
        else:
            tokens.append(match[3])
    try:
        number = _ArithmeticParser(tokens).value()
    except (ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return None
    return number if abs(number) < _LARGEST else None


class _ArithmeticParser:
    """`tokens` by the usual precedence. Raises ValueError for what is no expression."""

    def __init__(self, tokens: list[str | int]) -> None:
        self._tokens: Iterator[str | int] = iter([*tokens, ""])
        self._next = next(self._tokens)

    def value(self) -> int:
        value = self._sum()
        if self._next != "":
            raise ValueError
        return value

    def _step(self) -> str | int:
        token, self._next = self._next, next(self._tokens, "")
        return token

    def _sum(self) -> int:
        value = self._product()
        while self._next in ("+", "-"):
            value += self._product() if self._step() == "+" else -self._product()
        return value

    def _product(self) -> int:
        value = self._unit()
        while self._next in ("*", "/", "%"):
            if abs(value) > _LARGEST:
                raise OverflowError
            sign, other = self._step(), self._unit()
            value = value * other if sign == "*" else int(value / other) if sign == "/" else value % other
        return value

    def _unit(self) -> int:
        token = self._step()
        if token == "-":
            return -self._unit()
        if token == "(":
            value = self._sum()
            if self._step() != ")":
                raise ValueError
            return value
        if not isinstance(token, int):
            raise ValueError
        return token
