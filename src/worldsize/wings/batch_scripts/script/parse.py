"""Parser for Slurm batch scripts, which reads their #SBATCH lines as sbatch does. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from worldsize.errors import JobError
from worldsize.jobspec.batch_script import MAGIC
from worldsize.wings.batch_scripts.agent.option_tables import NO_OPTION, read_options, sbatch_table

MAX_BYTES = 4 << 20
"""Slurm's own limit for the size of a script in bytes (MaxScriptSize of slurm.conf, which is 4 MiB unless a site
changes it)."""

BLANKS = " \t\n\v\f\r"
"""The blanks of sbatch: the characters of C's isspace(). A no-break space from a web page is part of a word."""

_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")
_LONG_NAME = re.compile(r"[a-z][a-z0-9_-]{0,127}")
_PIECE = re.compile(
    r"([ \t\n\v\f\r]+)|(#)"
    r"|\"([^\"\\]*(?:\\.[^\"\\]*)*)\"|'([^'\\]*(?:\\.[^'\\]*)*)'|([\"'])"
    r"|((?:[^ \t\n\v\f\r#\"'\\]|\\.)+|\\)",
    re.DOTALL,
)
"""Pattern of a piece of a line: blanks, the beginning of a comment, a text in double or single quotes, a quote that is
not closed, or anything else."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ALMOST_OPTION = re.compile(r"\s*#\s*sbatch\s+-", re.IGNORECASE)


class SbatchOption(NamedTuple):
    """An option of a #SBATCH line, by its long name. `value` is None if it was given without one."""

    name: str
    value: str | None
    line: int


class Remark(NamedTuple):
    """A remark for the user on a line of the script."""

    line: int
    what: str
    hint: str | None = None


class BatchScript(NamedTuple):
    """The content of a script.

    text         its whole text
    interpreter  the words of its first line, without #!
    options      its options in the order of the file; of two with the same name, the later one counts
    remarks      lines that do not do what they appear to do
    faults       lines that sbatch would refuse
    foreign      the long options that are none of sbatch's own: a plug-in of the cluster (SPANK) may know them, or
                 a newer release; they are also among `options`
    """

    text: str
    interpreter: tuple[str, ...]
    options: tuple[SbatchOption, ...]
    remarks: tuple[Remark, ...] = ()
    faults: tuple[Remark, ...] = ()
    foreign: tuple[SbatchOption, ...] = ()

    def option(self, name: str) -> SbatchOption | None:
        """Return the last #SBATCH option with the long name `name`, which is the one that counts; None if the script
        has none."""
        return next((option for option in reversed(self.options) if option.name == name), None)

    def value(self, name: str) -> str | None:
        option = self.option(name)
        return option.value if option else None

    def has_option(self, name: str) -> bool:
        return self.option(name) is not None

    @property
    def is_shell(self) -> bool:
        """True if a shell interprets the script. sbatch accepts a script of any interpreter."""
        return any(word.rpartition("/")[2] in _SHELLS for word in " ".join(self.interpreter).split())

    def line(self, *names: str) -> int | None:
        """Return the number of the last line of the script that gives one of the options `names`; None if the script
        has none of them."""
        return max((option.line for option in self.options if option.name in names), default=None)


def parse_script(text: str, source: str) -> BatchScript:
    """Parse the text of a Slurm batch script and return it as a BatchScript. Raise JobError, with file and line, for a
    text that sbatch would not accept as a batch script at all. `source` is the script's file, for messages."""
    if not text.startswith("#!"):
        what = "not a batch script: its first line must name the interpreter"
        raise JobError(what, f"{source}:1", "begin it with #!/bin/bash")
    if "\r\n" in text:
        first = text.count("\n", 0, text.index("\r\n")) + 1
        raise JobError("DOS line ends, which sbatch refuses", f"{source}:{first}", f"dos2unix {source}")
    if "\0" in text:
        raise JobError("holds a NUL byte, which sbatch refuses", source)
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        where = "{}:{}".format(source, text.count("\n", 0, error.start) + 1)
        raise JobError("holds a character that cannot be encoded", where) from None
    if size > MAX_BYTES:
        raise JobError(f"larger than {MAX_BYTES} bytes, which is Slurm's limit", source)
    lines = text.removesuffix("\n").split("\n")
    body = _first_command_line(lines)
    options: list[SbatchOption] = []
    faults: list[Remark] = []
    for number, line in enumerate(lines[: body - 1], 1):
        if line.startswith(MAGIC):
            _read_line(line, number, options, faults)
    interpreter = tuple(re.split("[ \t]+", lines[0][2:].strip(" \t"), maxsplit=1)) if lines[0][2:].strip() else ()
    if not interpreter:
        raise JobError("its first line names no interpreter", f"{source}:1", "begin it with #!/bin/bash")
    foreign = tuple(option for option in options if option.name not in sbatch_table().takes)
    return BatchScript(text, interpreter, tuple(options), tuple(_remarks(lines, body)), tuple(faults), foreign)


def _first_command_line(lines: Sequence[str]) -> int:
    texts = [line.lstrip(BLANKS) for line in lines]
    return next((number for number, text in enumerate(texts, 1) if text and text[0] != "#"), len(lines) + 1)


def _read_line(line: str, number: int, options: list[SbatchOption], faults: list[Remark]) -> None:
    try:
        words = split_words(line[len(MAGIC) :])
    except ValueError as error:
        faults.append(Remark(number, f"{error} in {line.strip()}"))
        return
    while words:
        read = read_options(words, sbatch_table())
        options += [SbatchOption(said.name, said.value, number) for said in read.options]
        words, taken = words[read.rest :], False
        for word, fault, at in read.unknown:
            foreign = _foreign_option(word, number) if fault == NO_OPTION else None
            if foreign is None:
                faults.append(Remark(number, f"sbatch: {word:.200} {fault}", _odd_blank_hint(word)))
                continue
            if "=" not in word and at + 1 == read.rest and words:
                foreign, taken = foreign._replace(value=words.pop(0)), True
            options.append(foreign)
        if not taken:
            break
    if words:
        rest = " ".join(words)
        het = rest == "hetjob"
        what = "part of a heterogeneous job, which cannot be run" if het else f"is not an option: {rest:.200}"
        hint = None if het else _odd_blank_hint(rest) or "write -- before its name"
        faults.append(Remark(number, f"{MAGIC} {what}", hint))


def _odd_blank_hint(text: str) -> str | None:
    """Return a hint that names the first character of `text` that only looks like a blank, such as a no-break space;
    None if there is no such character."""
    odd = next((character for character in text if character.isspace() and character not in BLANKS), None)
    if odd is None:
        return None
    return f"U+{ord(odd):04X} ({unicodedata.name(odd, 'a control character')}) is not a space: write a space"


def _foreign_option(word: str, line: int) -> SbatchOption | None:
    """Return the word of a #SBATCH line as a long option that is none of sbatch's own; None if the word cannot be such
    an option."""
    name, equals, value = word[2:].partition("=")
    if word[:2] != "--" or not _LONG_NAME.fullmatch(name) or _odd_blank_hint(word):
        return None
    return SbatchOption(name, value if equals else None, line)


def option_hint(name: str) -> str | None:
    """Return a hint that suggests the option of sbatch whose name is nearest to `name`, which is none of sbatch's own;
    None if no name is near."""
    from worldsize.jobspec.reading.nearest import nearest_word

    close = nearest_word(name, sbatch_table().takes)
    return f"did you mean --{close}?" if close else None


def split_words(text: str) -> list[str]:
    """Split the text of a #SBATCH line into words as sbatch does: by blanks, both quotes and backslashes. An unquoted #
    begins a comment, even inside a word. Raise ValueError for a quote that is not closed."""
    words: list[list[str]] = [[]]
    for piece in _PIECE.finditer(text):
        blanks, comment, double, single, unclosed, plain = piece.groups()
        if comment:
            break
        if unclosed:
            raise ValueError(f"no closing {unclosed}")
        if blanks:
            words.append([])
        else:
            words[-1].append(_ESCAPE.sub(r"\1", double or single or plain or ""))
    return ["".join(word) for word in words if word]


def _remarks(lines: Sequence[str], body: int) -> list[Remark]:
    found = []
    for number, line in enumerate(lines, 1):
        if line.startswith(MAGIC) and number > body:
            what = f"after the first command (line {body}), so Slurm ignores it: {line.strip()[:60]}"
            found.append(Remark(number, what, f"move it above line {body}"))
        elif number > 1 and not line.startswith(MAGIC) and _ALMOST_OPTION.match(line):
            what = f"a comment, not an option of sbatch: {line.strip()[:60]}"
            found.append(Remark(number, what, f"an option's line begins with {MAGIC}, without blanks before or in it"))
    return found
