"""A shell script as simple commands, as far as that can be told without executing it. Pure.

Not a shell: quotes, expansions, here-documents, compound commands and lists are recognised so far that what is found
is found rightly; what is not understood yields commands that are not `certain`, or words of unknown value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LITERAL, VARIABLE, ARITHMETIC, OTHER = "literal", "variable", "arithmetic", "other"
_OPENING = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
_JOINING = ("then", "do", "else", "elif", "!", "time")
_BLANKS = " \t\r"
"""What stands between words: bash's own blanks, and what Windows puts before the end of a line. All others are parts of
words."""

_ENDS = "\n;&|()"
"""What ends a command. A word ends there too, before blanks and before redirections, and nowhere else: what neither
skips nor takes would be looked at for ever."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_HERE = re.compile(r"<<-?[ \t\r]*(?:'([^']*)'|\"([^\"]*)\"|\\?([^ \t\r\n;|&<>()]+))")
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:<<<|<&|>&|<>|>>|>\||<|>)[ \t\r]*")


class WordPart(NamedTuple):
    """A piece of a word. text: a literal's text; a variable's name with what stands in its braces (`X:-1`); an
    arithmetic expression; of what is OTHER, a command without its brackets, an array's elements in theirs.
    quoted: its value is not split at blanks."""

    kind: str
    text: str
    quoted: bool = False


ShellWord = tuple[WordPart, ...]


class ShellCommand(NamedTuple):
    """line: where it begins. certain: it is executed exactly once, when the script gets there."""

    line: int
    words: tuple[ShellWord, ...]
    certain: bool


def parse_commands(text: str) -> list[ShellCommand]:
    return list(_ScriptParser(text).read())


_READ: ShellWord = (WordPart(LITERAL, "read"),)
"""A loop gives its variable values as `read` does: which ones is not known."""


class _ScriptParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._closing: list[str] = []
        self._conditional = False
        self._here: list[str] = []

    def read(self) -> Iterator[ShellCommand]:
        while self._at < len(self._text):
            line, words = self._command()
            words = self._without_keywords(words)
            if words:
                yield ShellCommand(line, tuple(words), not (self._closing or self._conditional))
            self._conditional = self._skip_separator()

    def _command(self) -> tuple[int, list[ShellWord]]:
        words: list[ShellWord] = []
        line = 0
        while True:
            self._skip_blanks()
            if self._at >= len(self._text) or self._peek() in _ENDS:
                redirection = _REDIRECTION.match(self._text, self._at)
                if not redirection:
                    return line or self._line, words
                self._take(redirection.end())
                self._word()
                continue
            line = line or self._line
            here = _HERE.match(self._text, self._at)
            if here and not self._text.startswith("<<<", self._at):
                self._here.append(next(group for group in here.groups() if group is not None))
                self._take(here.end())
                continue
            redirection = _REDIRECTION.match(self._text, self._at)
            if redirection:
                self._take(redirection.end())
                self._word()
            else:
                words.append(self._word())

    def _skip_separator(self) -> bool:
        """Whether the next command depends on how this one ended."""
        text, at = self._text, self._at
        if at >= len(text):
            return False
        for sign in ("&&", "||"):
            if text.startswith(sign, at):
                self._take(at + 2)
                return True
        character = text[at]
        self._take(at + 1)
        if character == "\n":
            self._skip_here_documents()
        elif character == "(":
            self._closing.append(")")
        elif character == ")" and self._closing[-1:] == [")"]:
            self._closing.pop()
        return character == "|" and self._conditional

    def _without_keywords(self, words: list[ShellWord]) -> list[ShellWord]:
        for at in range(len(words)):
            word = _literal_text(words[at])
            if word in _OPENING:
                self._closing.append(_OPENING[word])
                if word in ("for", "select"):
                    return [_READ, *words[at + 1 : at + 2]]
                if word == "case":
                    return []
            elif self._closing[-1:] == [word]:
                self._closing.pop()
            elif word == "function":
                return []
            elif word not in _JOINING:
                return words[at:]
        return []

    def _skip_blanks(self) -> None:
        text = self._text
        while self._at < len(text):
            if text.startswith("\\\n", self._at):
                self._take(self._at + 2)
            elif text[self._at] in _BLANKS:
                self._at += 1
            elif text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            else:
                return

    def _word(self) -> ShellWord:
        parts: list[WordPart] = []
        while self._at < len(self._text):
            character = self._peek()
            if character == "(" and parts and parts[-1].text.endswith("="):
                parts.append(self._take_part(self._closing_position(self._at, "(", ")"), OTHER))
                continue
            if character in _BLANKS or character in _ENDS or character in "<>":
                break
            if character == "'":
                end = self._find("'", self._at + 1)
                parts.append(WordPart(LITERAL, self._text[self._at + 1 : end]))
                self._take(end + 1)
            elif character == '"':
                self._take(self._at + 1)
                self._read_quoted(parts)
            elif character == "\\":
                if not self._text.startswith("\\\n", self._at):
                    parts.append(WordPart(LITERAL, self._text[self._at + 1 : self._at + 2]))
                self._take(self._at + 2)
            else:
                parts.append(self._expansion(character))
        return tuple(parts)

    def _read_quoted(self, parts: list[WordPart]) -> None:
        while self._at < len(self._text):
            character = self._peek()
            if character == '"':
                self._take(self._at + 1)
                parts.append(WordPart(LITERAL, ""))
                return
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in '"\\$`\n':
                following = self._text[self._at + 1 : self._at + 2]
                parts.append(WordPart(LITERAL, "" if following == "\n" else following))
                self._take(self._at + 2)
            else:
                parts.append(self._expansion(character)._replace(quoted=True))

    def _expansion(self, character: str) -> WordPart:
        text, at = self._text, self._at
        if character == "`":
            return self._take_part(self._find("`", at + 1) + 1, OTHER, 1, 1)
        if character != "$":
            return self._take_part(at + 1, LITERAL)
        if text.startswith("$((", at):
            end = self._closing_position(at + 1, "(", ")")
            return self._take_part(end, ARITHMETIC if text[end - 2 : end] == "))" else OTHER, 3, 2)
        if text.startswith("$(", at):
            return self._take_part(self._closing_position(at + 1, "(", ")"), OTHER, 2, 1)
        if text.startswith("${", at):
            return self._take_part(self._closing_position(at + 1, "{", "}"), VARIABLE, 2, 1)
        name = _NAME.match(text, at + 1)
        return self._take_part(name.end(), VARIABLE, 1) if name else self._take_part(at + 1, LITERAL)

    def _take_part(self, end: int, kind: str, left: int = 0, right: int = 0) -> WordPart:
        part = WordPart(kind, self._text[self._at + left : max(end - right, self._at + left)])
        self._take(end)
        return part

    def _closing_position(self, start: int, opening: str, closing: str) -> int:
        """Just after what closes the one at `start`; quotes inside hide what they hold."""
        depth, at, text = 0, start, self._text
        while at < len(text):
            if text[at] == "\\":
                at += 1
            elif text[at] == "'" and opening == "(":
                at = self._find("'", at + 1)
            elif text[at] == opening:
                depth += 1
            elif text[at] == closing:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return len(text)

    def _skip_here_documents(self) -> None:
        for delimiter in self._here:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._take(min(end + 1, len(self._text)))
                if line.lstrip("\t") == delimiter:
                    break
        self._here = []

    def _find(self, sign: str, start: int) -> int:
        found = self._text.find(sign, start)
        return len(self._text) if found < 0 else found

    def _peek(self) -> str:
        return self._text[self._at]

    def _take(self, end: int) -> None:
        end = min(end, len(self._text))
        self._line += self._text.count("\n", self._at, end)
        self._at = end


def _literal_text(word: ShellWord) -> str | None:
    """An unquoted, literal word's text."""
    return "".join([part.text for part in word]) if all(part.kind == LITERAL for part in word) else None
