"""Parser for the simple commands in a shell text, such as a job's command or a batch script."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.script.reading.words import names_rank

_ASSIGNMENT = r"([A-Za-z_]\w*)\+?="
_HEREDOC = r"(?<!<)<<-?\s*(['\"]?)([A-Za-z_]\w*)\1"
_KEYWORDS = frozenset(("then", "do", "else", "{", "!", "time", "exec", "env", "command", "nohup", "sudo"))
_TESTS = frozenset(("[", "[[", "test", "command", "which", "type", "!"))
_OPENS = {"if": "if", "elif": "if", "while": "while", "until": "while", "case": "case"}
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_LOCAL_RANK = r"(?i)localid"
_FILE_TEST = r"-[a-z]$"
_MOST_TEXT, _MOST_COMMANDS, _DEEPEST = 1 << 18, 2000, 3


class ShellCommand(NamedTuple):
    """A simple command.

    words      the words from its program on
    variables  the names of the variables that are set only for it
    directory  the directory after the `cd` commands before it, if known; relative to the initial directory
    doubtful   whether a test that is not about ranks decides if it is executed
    """

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    directory: str = ""
    doubtful: bool = False


def shell_commands(text: str, directory: str = "", depth: int = 0) -> Iterator[ShellCommand]:
    """Yield a ShellCommand for each simple command of a shell text in their order, including those of a `bash -c LINE`
    in it. `directory` is the initial directory."""
    reader = _Reader(directory)
    for number, (words, before) in enumerate(_split_commands(_words(text[:_MOST_TEXT]))):
        command = reader.take(words, before) if number < _MOST_COMMANDS else None
        if command is None:
            continue
        line = _inner_line(command.words)
        if line is None or depth == _DEEPEST:
            yield command
            continue
        for inner in shell_commands(line, command.directory, depth + 1):
            yield inner._replace(doubtful=inner.doubtful or command.doubtful)


def variables_set_in(text: str) -> set[str]:
    """Return the names of the variables to which a shell text assigns a value, with `export` or without."""
    return set(re.findall(r"(?:^|[\s;&|(])([A-Za-z_]\w*)=", text[:_MOST_TEXT]))


class _Reader:
    """The state of the parser for a shell text at its current position: the directory, and the blocks around it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.blocks: list[bool] = []
        self.test: list[str] | None = None
        self.last: tuple[str, ...] = ()

    def take(self, words: list[str], before: str) -> ShellCommand | None:
        last, self.last = self.last, tuple(words)
        words = self._without_keywords(words)
        variables = []
        while words and (re.match(_ASSIGNMENT, words[0]) or words[0] in _KEYWORDS):
            assigned = re.match(_ASSIGNMENT, words[0])
            variables += [assigned[1]] if assigned else []
            words = words[1:]
        if not words or self.test is not None:
            return None
        if words[0] == "cd":
            self._change(words)
            return None
        guarded = "||" in before or ("&&" in before and bool(last) and last[0] in _TESTS)
        return ShellCommand(tuple(words), tuple(variables), self.directory, guarded or any(self.blocks))

    def _without_keywords(self, words: list[str]) -> list[str]:
        """Record the shell blocks (`if`, `for`, `case` and the like) that begin and end with these words of a command,
        and return the words without the blocks' keywords."""
        while words:
            if words[0] in _OPENS:
                if words[0] == "elif" and self.blocks:
                    self.blocks.pop()
                self.blocks.append(words[0] == "case")
                self.test = None if words[0] == "case" else []
            elif words[0] in ("then", "do") and self.test is not None:
                if self.blocks:
                    self.blocks[-1] = not _asks_rank(self.test)
                self.test = None
            elif words[0] in ("for", "select"):
                self.blocks.append(False)
                return []
            elif words[0] in ("fi", "done", "esac"):
                if self.blocks:
                    self.blocks.pop()
            elif words[0] != "else":
                break
            words = words[1:]
        if self.test is not None:
            self.test += words
        return words

    def _change(self, words: list[str]) -> None:
        if len(words) == 2 and re.fullmatch(r"[\w./-]+", words[1]) and not words[1].startswith("-"):
            self.directory = os.path.join(self.directory, words[1])


def _asks_rank(words: list[str]) -> bool:
    if any(re.fullmatch(_FILE_TEST, word) and word not in ("-a", "-o") for word in words):
        return False
    return any(names_rank(word) or re.search(_LOCAL_RANK, word) for word in words)


def _inner_line(words: tuple[str, ...]) -> str | None:
    """Return LINE if the words of a command contain `bash -c LINE`, or the same with another shell, also after another
    program; None otherwise."""
    for number, word in enumerate(words):
        if os.path.basename(word) in _SHELLS:
            for place in range(number + 1, len(words) - 1):
                if not words[place].startswith("-"):
                    break
                if not words[place].startswith("--") and words[place].endswith("c"):
                    return words[place + 1]
    return None


def _words(text: str) -> list[str]:
    text = _without_heredocs(text).replace("\\\n", " ")
    try:
        return _lex(text)
    except ValueError:  # an unclosed quote, such as an apostrophe after a `#`
        return [word for line in text.splitlines() for word in (*_lex_line(line), "\n")]


def _without_heredocs(text: str) -> str:
    """Return a shell text without comment lines and without the contents of here-documents."""
    kept, end = [], ""
    for line in text.splitlines():
        if end:
            end = "" if line.strip() == end else end
        elif not line.lstrip().startswith("#"):
            kept.append(line)
            document = re.search(_HEREDOC, line)
            end = document[2] if document else ""
    return "\n".join(kept)


def _lex_line(line: str) -> list[str]:
    try:
        return _lex(line)
    except ValueError:  # an unclosed quote: skip this line
        return []


def _lex(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _split_commands(words: list[str]) -> Iterator[tuple[list[str], str]]:
    """Split the words of a shell text into simple commands. Yield the words of each command, and the separator in front
    of it: ";", "&&", "||" and the like."""
    command: list[str] = []
    before, skipped, comment = "", False, False
    for word in [*words, "\n"]:
        if word and set(word) <= set("();&|\n"):
            if command:
                yield command, before
                command, before = [], ""
            before, skipped = word if "\n" in word or not before else before + word, False
            comment = comment and "\n" not in word
        elif comment or skipped:
            skipped = False
        elif word and set(word) <= set("<>&|"):
            skipped = True
        elif word.startswith("#"):
            comment = True
        else:
            command.append(word)
