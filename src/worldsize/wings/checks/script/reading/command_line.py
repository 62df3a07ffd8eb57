"""Parser for the command of a rank: the script that it starts, the program that starts it, and the script's
arguments."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

_ASSIGNMENT = r"[A-Za-z_]\w*="
_PYTHON = r"python(\d+(\.\d+)*)?$"
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_COMPOUND = frozenset(
    ("if", "then", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "!", "[")
)
_OTHER_STARTERS = ("srun", "mpirun", "mpiexec", "orterun", "horovodrun", "prun", "jsrun", "aprun", "parallel", "xargs")
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_TORCHRUN_FLAGS = (
    "--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "--use-env", "--use_env",
    "--virtual-local-rank", "--virtual_local_rank",
)  # fmt: skip
_SEPARATOR = r"[;&|\n]+$"
_MOST_WORDS = 4000


class ScriptCommand(NamedTuple):
    """A script and how it is started.

    script    its path, as in the command; "" if `module` is set
    module    the module of `python -m`; "" if there is a script
    words     the arguments after it
    starter   "python", "torchrun", "accelerate" or "deepspeed"
    options   the options of the starter: the last value of each, without its dashes, `_` for `-`
    directory the directory that the command changes to first, relative to the code's directory
    """

    script: str
    module: str
    words: tuple[str, ...]
    starter: str = "python"
    options: Mapping[str, str] = {}
    directory: str = ""


def script_command(argv: Sequence[str]) -> ScriptCommand | None:
    """Return a ScriptCommand for the only Python script that the command of a rank starts; None if the command starts
    none or several, or if that is not certain."""
    words = list(argv)
    if not words or len(words) > _MOST_WORDS or not all(isinstance(word, str) for word in words):
        return None
    line = _shell_line(words)
    if line is None:
        return _simple_command(words, "")
    return _only_command(line)


def _shell_line(words: Sequence[str]) -> str | None:
    """Return LINE if the words of a command are `bash -c LINE`, or the same with another shell; None for every other
    command."""
    if os.path.basename(words[0]) not in _SHELLS:
        return None
    for number, word in enumerate(words[1:], 1):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and word.endswith("c") and number + 1 < len(words):
            return words[number + 1]
    return None


def _only_command(line: str) -> ScriptCommand | None:
    directory, found = "", []
    for words in _shell_commands(line):
        if words is None or _COMPOUND & {words[0]}:
            return None
        if words[0] == "cd":
            if len(words) != 2 or not re.fullmatch(r"[\w./-]+", words[1]) or words[1].startswith("-"):
                return None
            directory = os.path.join(directory, words[1])
        elif any(os.path.basename(word) in _OTHER_STARTERS for word in words[:3]):
            return None
        else:
            command = _simple_command(words, directory)
            found += [] if command is None else [command]
    return found[0] if len(found) == 1 else None


def _shell_commands(line: str) -> Iterator[list[str] | None]:
    """Yield the list of words of each simple command in a shell line. Yield None for a part of the line that is not a
    simple command, such as a subshell, and stop there."""
    try:
        words = _shell_words(line)
    except ValueError:  # an unclosed quote
        yield None
        return
    command: list[str] = []
    skipped = False
    for word in words:
        if skipped:
            skipped = False
        elif re.match(_SEPARATOR, word):
            if command:
                yield command
            command = []
        elif word[0] in "<>" or set(word) <= set("<>&|"):
            skipped = True
        elif set(word) <= set("()") or word.startswith("#"):
            yield None
            return
        else:
            command.append(word)
    if command:
        yield command


def _shell_words(line: str) -> list[str]:
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return [word for word in lexer if word]


def _without_prefix(words: list[str]) -> list[str]:
    """Return the words of a command without the leading variable assignments and words such as `exec` and `env`."""
    while words and (re.match(_ASSIGNMENT, words[0]) or words[0] in ("exec", "env", "time", "command", "nohup")):
        words = words[1:]
    return words


def _simple_command(words: list[str], directory: str) -> ScriptCommand | None:
    words = _without_prefix(words)
    if not words:
        return None
    program = os.path.basename(words[0])
    if re.match(_PYTHON, program):
        return _python_command(words[1:], directory)
    if program == "torchrun":
        return _torchrun_command(words[1:], directory)
    if program == "deepspeed" or (program == "accelerate" and words[1:2] == ["launch"]):
        return _launcher_command(words[1:], program, directory)
    if program.endswith(".py"):
        return _script_of(words, "python", {}, directory)
    return None


def _script_of(
    words: list[str], starter: str, options: Mapping[str, str], directory: str, module: bool = False
) -> ScriptCommand | None:
    """Return a ScriptCommand for the script (or, with `module`, the module) that these words of a command begin with;
    None if they begin with none."""
    if not words or not re.fullmatch(r"[^$`*?~\x00]+", words[0]):
        return None
    script, name = ("", words[0]) if module else (words[0], "")
    if not module and not script.endswith(".py"):
        return None
    return ScriptCommand(script, name, tuple(words[1:]), starter, options, directory)


def _python_command(words: list[str], directory: str) -> ScriptCommand | None:
    while words and words[0].startswith("-"):
        option, words = words[0], words[1:]
        if option in ("-W", "-X"):
            words = words[1:]
        elif option == "-m":
            if words[:1] and words[0] in _TORCHRUN_MODULES:
                return _torchrun_command(words[1:], directory)
            if words[:1] == ["accelerate.commands.launch"]:
                return _launcher_command(words[1:], "accelerate", directory)
            return _script_of(words, "python", {}, directory, module=True)
        elif not re.fullmatch(r"-[uOBEsSIqvbx]+|-[WX]\S+", option):
            return None
    return _script_of(words, "python", {}, directory)


def _torchrun_command(words: list[str], directory: str) -> ScriptCommand | None:
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        option, equals, value = words[0].partition("=")
        words = words[1:]
        if option in ("-m", "--module"):
            options["module"] = ""
        elif option in _TORCHRUN_FLAGS:
            options[_option_name(option)] = ""
        else:
            if not equals:
                value, words = (words[0] if words else ""), words[1:]
            options[_option_name(option)] = value
    if "no_python" in options:
        return None
    return _script_of(words, "torchrun", options, directory, module="module" in options)


def _launcher_command(words: list[str], starter: str, directory: str) -> ScriptCommand | None:
    """Return a ScriptCommand for the script that accelerate or deepspeed starts: the first word that ends with .py. The
    launcher's own options are too many to be known here. None if there is no such word."""
    for number, word in enumerate(words):
        if word.endswith(".py") and not word.startswith("-"):
            return _script_of(words[number:], starter, {}, directory)
    return None


def _option_name(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
