"""The values of the script's own options (argparse, click) for the words of a command."""

from __future__ import annotations

import ast
import re

from worldsize.wings.checks.script.reading.calls import argument, text
from worldsize.wings.checks.script.reading.index import Index

_DEFINES = ("add_argument", "option")
NAMESPACES = (
    "args", "arg", "opt", "opts", "options", "arguments", "cfg", "config", "conf", "FLAGS", "hparams", "params",
)  # fmt: skip
"""Names of the variables in which scripts store their options."""

_NUMBER = r"-?\d{1,18}$"


class Arguments:
    """The options that a script's calls of `add_argument` (argparse) or `option` (click) define, by the name of the
    attribute that they set."""

    def __init__(self, index: Index, words: tuple[str, ...]) -> None:
        self.words = words
        self.names: dict[str, list[ast.Call]] = {}
        for call in index.calls_named(*_DEFINES):
            for name in _attribute_names(call):
                self.names.setdefault(name, []).append(call)

    def value(self, name: str) -> ast.expr | None:
        """Return the expression that the value of the script's option `name` comes from: its default, or the constant
        in the command. None if that is not known."""
        calls = self.names.get(name, [])
        if len(calls) != 1:
            return None
        flags = [flag for flag in map(text, calls[0].args) if flag is not None and flag.startswith("-")]
        given = self._value_in_command(flags)
        action = text(argument(calls[0], "action"))
        if action in ("store_true", "store_false"):
            is_certain = given is None or any(word in flags for word in self.words)
            return ast.Constant((given is None) == (action == "store_false")) if is_certain else None
        if given is not None:
            return ast.Constant(int(given) if re.match(_NUMBER, given) else given) if given else None
        if argument(calls[0], "action") is not None:
            return None
        return argument(calls[0], "default")

    def _value_in_command(self, flags: list[str]) -> str | None:
        """Return the text that the script's command gives for the option with these flags: None if the option is not in
        the command, "" if its value is not certain."""
        found = None
        for number, word in enumerate(self.words):
            option, equals, value = word.partition("=")
            if option in flags:
                following = self.words[number + 1] if number + 1 < len(self.words) else ""
                found = value if equals else following
            elif any(_may_shorten(word, flag) for flag in flags):
                found = ""
        return found if found is None or not set(found) & set("$`*") else ""


def _may_shorten(word: str, flag: str) -> bool:
    """Return whether a word may be an abbreviation of the flag: `-j4` of `-j`, or `--work` of `--workers`."""
    if flag.startswith("--"):
        return word.startswith("--") and len(word) > 2 and flag.startswith(word.partition("=")[0])
    return word.startswith(flag) and not word.startswith("--")


def _attribute_names(call: ast.Call) -> list[str]:
    destination = text(argument(call, "dest"))
    if destination is not None:
        return [destination]
    flags = [flag for flag in map(text, call.args) if flag]
    long = [flag for flag in flags if flag.startswith("--")] or flags
    return [flag.lstrip("-").replace("-", "_") for flag in long[:1]]
