"""Parser that splits a shell script into simple commands, as far as that is possible without executing it. Pure.

It is not a shell. It recognises quotes, expansions, here-documents, compound commands and lists to the extent that its
results are right. Anything else yields commands that are not `certain`, or words of unknown value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LITERAL, VARIABLE, ARITHMETIC, OTHER = "literal", "variable", "arithmetic", "other"
_OPENING = {"if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac", "{": "}"}
_JOINING = ("then", "do", "else", "elif", "!", "time")

_BLANK = re.compile(r"(?:[ \t\r]|\\\n|#[^\n]*)*")
"""Pattern of the text between words: bash's own blanks, comments, continued lines, and the carriage return that Windows
writes before the end of a line. All other characters are parts of words."""

_ENDS = "\n;&|()"
"""The characters that end a command. A word ends there too, before blanks and before redirections, and nowhere else.
The parser would loop forever at a character that is neither skipped nor read."""

_WORD_ENDS = " \t\r<>" + _ENDS
_HERE = re.compile(r"<<-?[ \t\r]*(?:'([^']*)'|\"([^\"]*)\"|\\?([^ \t\r\n;|&<>()]+))")
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:<<<|<&|>&|<>|>>|>\||<|>)[ \t\r]*")
_SEPARATOR = re.compile(r"&&|\|\||[\s\S]")
_CONTINUED = re.compile(r"(?:\\\n)*")
_EXPANSION = r"`([^`]*)`?|\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])"
_KINDS = (OTHER, VARIABLE, LITERAL, LITERAL, LITERAL)
"""The kinds of parts that the groups of the next two patterns match."""

_PIECE = re.compile(_EXPANSION + r"|'([^']*)'?|\\([\s\S]?)|([^ \t\r\n;&|()<>'\"\\`$]+|\$(?![({]))")
_QUOTED_PIECE = re.compile(_EXPANSION + r"|\\([\"\\$`])|((?:[^\"\\`$]|\\(?![\"\\$`\n]))+|\$(?![({]))")
_BRACKETS = {"(": re.compile(r"\\[\s\S]|'[^']*'?|[()]"), "{": re.compile(r"\\[\s\S]|[{}]")}


class WordPart(NamedTuple):
    """A part of a word. `text` depends on the kind: the text of a literal; the name of a variable with the rest of its
    braces (`X:-1`); an arithmetic expression; for OTHER, a command without its brackets, or the elements of an array in
    their brackets. `quoted` is whether its value is not split at blanks."""

    kind: str
    text: str
    quoted: bool = False


ShellWord = tuple[WordPart, ...]


class ShellCommand(NamedTuple):
    """A simple command. `line` is where it begins. `certain` is whether it is executed exactly once, if the script
    reaches it."""

    line: int
    words: tuple[ShellWord, ...]
    certain: bool


def parse_commands(text: str) -> list[ShellCommand]:
    return list(_ScriptParser(text).read())


_READ: ShellWord = (WordPart(LITERAL, "read"),)
"""The word `read`, in place of the keyword of a loop. A loop sets its variable as `read` does: to values that are not
known."""


class _ScriptParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._closing: list[str] = []
        self._conditional = False
        self._here: list[str] = []

    def read(self) -> Iterator[ShellCommand]:
        line, counted = 1, 0
        while self._at < len(self._text):
            self._skip(_BLANK)
            start = self._at
            words = self._without_keywords(self._read_words())
            if words:
                line += self._text.count("\n", counted, start)
                counted = start
                yield ShellCommand(line, tuple(words), not (self._closing or self._conditional))
            self._conditional = self._skip_separator()

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _read_words(self) -> list[ShellWord]:
        words: list[ShellWord] = []
        while True:
            self._skip(_BLANK)
            here = self._skip(_HERE)
            if here:
                self._here.append(next(group for group in here.groups() if group is not None))
            elif self._skip(_REDIRECTION):
                self._read_word()
            elif self._at >= len(self._text) or self._text[self._at] in _ENDS:
                return words
            else:
                words.append(self._read_word())

    def _skip_separator(self) -> bool:
        """Skip the separator after a command of the shell script. Return whether the execution of the next command
        depends on how this command ended."""
        found = self._skip(_SEPARATOR)
        sign = found[0] if found else ""
        if sign == "\n":
            self._skip_here_documents()
        elif sign == "(":
            self._closing.append(")")
        elif sign == ")" and self._closing[-1:] == [")"]:
            self._closing.pop()
        return sign in ("&&", "||") or (sign == "|" and self._conditional)

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

    def _read_word(self) -> ShellWord:
        parts: list[WordPart] = []
        while self._skip(_CONTINUED) and self._at < len(self._text):
            character = self._text[self._at]
            if character == "(" and parts and parts[-1].text.endswith("="):
                parts.append(self._read_brackets(self._at, OTHER, 0))
            elif character in _WORD_ENDS:
                break
            elif character == '"':
                parts += self._read_quoted_parts()
            else:
                parts.append(self._read_part(_PIECE))
        return tuple(parts)

    def _read_quoted_parts(self) -> Iterator[WordPart]:
        self._at += 1
        while self._skip(_CONTINUED) and self._at < len(self._text):
            if self._text[self._at] == '"':
                self._at += 1
                yield WordPart(LITERAL, "")
                return
            yield self._read_part(_QUOTED_PIECE)._replace(quoted=True)

    def _read_part(self, pattern: re.Pattern[str]) -> WordPart:
        found = self._skip(pattern)
        if found:
            assert found.lastindex is not None
            return WordPart(_KINDS[found.lastindex - 1], found[found.lastindex])
        start = self._at + 1
        if self._text[start] == "{":
            return self._read_brackets(start, VARIABLE, 1)
        end = self._closing_position(start)
        arithmetic = self._text[start : start + 2] == "((" and self._text[end - 2 : end] == "))"
        return self._read_brackets(start, ARITHMETIC, 2) if arithmetic else self._read_brackets(start, OTHER, 1)

    def _read_brackets(self, start: int, kind: str, width: int) -> WordPart:
        """Read the text in the brackets at the position `start` of the script, and return it as a part of a word of the
        given `kind`. There are `width` brackets at each end."""
        self._at = self._closing_position(start)
        return WordPart(kind, self._text[start + width : max(start + width, self._at - width)])

    def _closing_position(self, start: int) -> int:
        """Return the position in the script just after the bracket that closes the bracket at `start`; the end of the
        script if none does. Brackets inside quotes are skipped."""
        opening, depth = self._text[start], 0
        for found in _BRACKETS[opening].finditer(self._text, start):
            if len(found[0]) == 1 and found[0] != "'":
                depth += 1 if found[0] == opening else -1
            if depth == 0:
                return found.end()
        return len(self._text)

    def _skip_here_documents(self) -> None:
        for delimiter in self._here:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(self._text, self._at)
            self._at = min(end.end() + 1, len(self._text)) if end else len(self._text)
        self._here = []


def _literal_text(word: ShellWord) -> str | None:
    """Return the text of a shell word that consists of literal parts only; None for any other word."""
    return "".join([part.text for part in word]) if all(part.kind == LITERAL for part in word) else None
