"""A parser for commands that are one Python with a script, as a shell would start it. It returns the words without a
shell.

Only certain cases are parsed: for any other feature of a shell there is no PythonCommand.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

_SHELLS = ("bash", "sh")
_PYTHON = "python"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DIGITS = frozenset("0123456789")
_SPECIAL = frozenset(";|&<>()`*?[]{}!\n")
"""Characters with a special meaning outside of quotes, so that the command is more than a list of words."""

_SPLIT = frozenset(" \t\n*?[")
"""Characters at which the shell splits the value of an unquoted variable, or which it expands to file names."""

_SWITCHES = frozenset("uOBbsqd")
_WITH_VALUE = ("-X", "-W")
_LOUD = ("importtime", "tracemalloc", "perf", "presite", "importprofile")
"""Options after -X with which a process prints or sees something different if its modules are preloaded."""

_OF_PYTHON = ("PYTHON", "LD_", "PATH", "WORLDSIZE_", "BASH_ENV", "ENV")
"""Prefixes of variables that make Python find other files than the agent expects."""


class Part(NamedTuple):
    """A part of a word: its text, or the name of a variable, in quotes or not."""

    text: str
    is_variable: bool = False
    is_quoted: bool = True


class PythonCommand(NamedTuple):
    """A command that starts Python.

    words   the words of the Python command, each as its parts
    script  the path as it was written; "" for a module
    module  the name after -m; "" for a script
    """

    words: tuple[tuple[Part, ...], ...]
    script: str
    module: str

    def variables(self) -> list[str]:
        """Return the names of the environment variables that the words of the command contain."""
        return [part.text for word in self.words for part in word if part.is_variable]

    def expand(self, environment: Mapping[str, str]) -> list[str] | None:
        """Return the words of the command with its variables replaced by their values in `environment`; None if a shell
        would turn a value into more than one word, or into none."""
        found = []
        for word in self.words:
            values = [environment.get(part.text, "") if part.is_variable else part.text for part in word]
            for part, value in zip(word, values):
                if part.is_variable and not part.is_quoted and (not value or _SPLIT & set(value)):
                    return None
            found.append("".join(values))
        return found


def python_command(argv: Sequence[str]) -> PythonCommand | None:
    """Return the PythonCommand in the command line `argv` if it executes one Python with a script or a module, directly
    or through `bash -c`; None otherwise."""
    if len(argv) == 3 and os.path.basename(argv[0]) in _SHELLS and argv[1] == "-c":
        words = _without_assignments(_shell_words(argv[2]))
    else:
        words = [(Part(word),) for word in argv]
    return _of_words(words) if words else None


def _without_assignments(words: list[tuple[Part, ...]]) -> list[tuple[Part, ...]]:
    """Return the words of a shell command after its leading variable assignments; an empty list if one of them changes
    what Python finds."""
    for number, word in enumerate(words):
        text = _plain_text(word)
        if text is None or not _is_assignment(text):
            return words[number:]
        if text.startswith(_OF_PYTHON):
            break
    return []


def _plain_text(word: tuple[Part, ...]) -> str | None:
    """Return the text of a word of a shell command; None if the word contains a variable."""
    return None if any(part.is_variable for part in word) else "".join(part.text for part in word)


def _of_words(words: Sequence[tuple[Part, ...]]) -> PythonCommand | None:
    texts = [_plain_text(word) for word in words]
    if texts[0] is None or not _is_python(texts[0]):
        return None
    number = 1
    while number < len(texts):
        text = texts[number]
        if text is None:
            return None
        if text == "-m":
            module = texts[number + 1] if number + 1 < len(texts) else None
            return PythonCommand(tuple(words), "", module) if module and not module.startswith("-") else None
        if text[:2] in _WITH_VALUE:
            value = text[2:] if len(text) > 2 else texts[number + 1] if number + 1 < len(texts) else None
            if value is None or (text[1] == "X" and value.startswith(_LOUD)):
                return None
            number += 1 if len(text) > 2 else 2
        elif len(text) > 1 and text[0] == "-":
            if not _SWITCHES.issuperset(text[1:]):
                return None
            number += 1
        else:
            return PythonCommand(tuple(words), text, "") if text != "-" else None
    return None


def _is_assignment(text: str) -> bool:
    name, sign, _ = text.partition("=")
    return bool(sign and name) and _NAME.issuperset(name) and name[0] not in _DIGITS


def _is_python(text: str) -> bool:
    name = os.path.basename(text)
    return name.startswith(_PYTHON) and not name[len(_PYTHON) :].strip("0123456789.")


def _shell_words(text: str) -> list[tuple[Part, ...]]:
    """Return the words of the simple shell command `text`, each as a tuple of its parts; an empty list for anything
    else."""
    try:
        return list(_Reader(text.strip()).words())
    except ValueError:
        return []


class _Reader:
    """A parser for the words of a simple shell command. Raises ValueError for anything else."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def words(self) -> Iterator[tuple[Part, ...]]:
        while self._skip_blanks():
            yield tuple(self._word())

    def _skip_blanks(self) -> bool:
        """Skip blanks and escaped line ends to the next word of the shell command. Return whether there is one."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in " \t":
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            else:
                return True
        return False

    def _word(self) -> Iterator[Part]:
        text, start = self._text, self._at
        while self._at < len(text) and text[self._at] not in " \t":
            sign = text[self._at]
            if sign in _SPECIAL or (sign in "#~" and self._at == start) or text[self._at :][:2] in ("=~", ":~"):
                raise ValueError(sign)
            if sign == "'":
                end = text.index("'", self._at + 1)
                yield Part(text[self._at + 1 : end])
                self._at = end + 1
            elif sign == '"':
                self._at += 1
                yield from self._quoted()
            elif sign == "$":
                yield Part(self._variable(), True, False)
            elif sign == "\\":
                if self._at + 1 == len(text):
                    raise ValueError(sign)
                if text[self._at + 1] != "\n":
                    yield Part(text[self._at + 1])
                self._at += 2
            else:
                yield Part(sign)
                self._at += 1

    def _quoted(self) -> Iterator[Part]:
        """Yield the parts of a word between double quotes. There is at least one part, since quotes make a word even if
        it is empty. Raise ValueError if the quotes are not closed, or contain a backquote."""
        text = self._text
        yield Part("")
        while True:
            if self._at >= len(text) or text[self._at] == "`":
                raise ValueError(text)
            sign = text[self._at]
            if sign == '"':
                self._at += 1
                return
            if sign == "$":
                yield Part(self._variable(), True)
            elif sign == "\\" and text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                yield Part(text[self._at + 1].strip("\n"))
                self._at += 2
            else:
                yield Part(sign)
                self._at += 1

    def _variable(self) -> str:
        """Parse a variable's name after a dollar sign, plain or in braces, and return it. Raise ValueError for any
        other use of the dollar sign."""
        text, start = self._text, self._at + 1
        braces = text.startswith("{", start)
        start += braces
        end = start
        while end < len(text) and text[end] in _NAME:
            end += 1
        if end == start or text[start] in _DIGITS or (braces and not text.startswith("}", end)):
            raise ValueError(text)
        self._at = end + braces
        return text[start:end]
