"""What was probably meant: hints for command lines that are not understood. Loaded only when one is not."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections.abc import Collection, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.reading.nearest import nearest_word

STARTING = ("run", "submit", "exec")
_SCRIPTS = (".py", ".sh")
_JOB_FILES = (".yml", ".yaml")
_SHOWN = 60
_FILE_SIMILARITY = 0.75
"""Of names that all end alike, as job files do, more has to be the same."""


def unknown_verb_error(words: Sequence[str], verb: str, verbs: Collection[str]) -> UsageError:
    """The error for `verb`, the first of `words` that is no option, and none of worldsize's verbs."""
    later = next((word for word in words if word in verbs), None)
    if words[0].startswith("-") and later is not None:
        cut = words.index(later)
        mended = _command_line([later, *words[:cut], *words[cut + 1 :]])
        return UsageError(f"{_shortened_text(words[0])} stands before the verb", None, f"options follow it: {mended}")
    if verb.endswith(_JOB_FILES):
        return UsageError(f"there is no verb {_shortened_text(verb)}", None, _command_line(["run", *words]))
    if verb.endswith(_SCRIPTS):
        return UsageError(f"there is no verb {_shortened_text(verb)}", None, _suggested_command([], words))
    close = nearest_word(verb, verbs)
    hint = f"did you mean {close}?" if close else f"one of: {', '.join(verbs)}"
    return UsageError(f"there is no verb {_shortened_text(verb)}", None, hint)


def unknown_words_error(
    parser: argparse.ArgumentParser, verb: str, words: Sequence[str], extra: Sequence[str]
) -> UsageError:
    """The error for words that are left over after the verb's own, such as a misspelt option, or a command without
    `--`."""
    parser, verb = _innermost_parser(parser, verb, words)
    if verb in STARTING and not extra[0].startswith("-"):
        return _missing_dashes_error(words[words.index(verb) + 1 :], verb, extra)
    option = next((word for word in extra if word.startswith("-")), None)
    if option is None:
        return UsageError(f"{verb} does not know what to do with {_command_line(extra, '')}", None, _help_command(verb))
    name = option.partition("=")[0]
    return UsageError(f"{verb} has no option {_shortened_text(name)}", None, _nearest_option(parser, verb, name))


def _innermost_parser(
    parser: argparse.ArgumentParser, verb: str, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, str]:
    """The parser of the verb, or of its action where it has actions of its own; and what it is called."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            chosen = next((word for word in words if word in action.choices), None)
            if chosen is not None:
                return action.choices[chosen], f"{verb} {chosen}"
    return parser, verb


def _nearest_option(parser: argparse.ArgumentParser, verb: str, name: str) -> str:
    options = [option for action in parser._actions for option in action.option_strings if option != "--help"]
    meant = [option for option in options if option.startswith(name)] if len(name) > 2 else []
    close = meant[0] if len(meant) == 1 else nearest_word(name, options)
    return f"did you mean {close}?" if close else _help_command(verb)


def _missing_dashes_error(words: Sequence[str], verb: str, extra: Sequence[str]) -> UsageError:
    """`run -w 2x2 python train.py --lr 0.1`: the command begins where the first word stands that is left to the job."""
    start = words.index(extra[0])
    if start > 0 and not os.path.isfile(words[start - 1]) and not words[start - 1].startswith("-"):
        start -= 1
    if words[start].endswith(_JOB_FILES):
        what = f"{verb} takes one job file; what to do with {_shortened_text(extra[0])}?"
        return UsageError(what, None, "inputs are set with --set inputs.NAME=VALUE")
    return UsageError("a command goes after --", None, _suggested_command(words[:start], words[start:], verb))


def wrong_job_file_error(name: str, words: Sequence[str]) -> UsageError | None:
    """The error for a script or a program that stands where a job file should; None where it may well be a job file."""
    if name.endswith(_SCRIPTS):
        what = f"{_shortened_text(name)} is a script, not a job file"
    elif os.path.exists(name) or name.endswith(_JOB_FILES) or os.sep in name or not shutil.which(name):
        return None
    else:
        what = "a command goes after --"
    start = words.index(name)
    return UsageError(what, None, _suggested_command(words[1:start], words[start:]))


def missing_file_error(name: str) -> NotFound:
    """The error for a missing job file, with the one that is there under nearly the same name."""
    directory = os.path.dirname(name) or "."
    try:
        there = sorted(entry for entry in os.listdir(directory) if entry.endswith(_JOB_FILES))
    except OSError:
        there = []
    base = os.path.basename(name)
    named = [entry for entry in there if os.path.splitext(entry)[0] == base]
    close = named[0] if named else nearest_word(base, there, _FILE_SIMILARITY)
    if close:
        hint = f"did you mean {shlex.quote(os.path.join(os.path.dirname(name), close))}?"
    else:
        hint = "`worldsize init` writes one, or give the command itself: worldsize run -w 1x2 -- python train.py"
    return NotFound("no such job file", _shortened_text(name), hint)


def _suggested_command(options: Sequence[str], command: Sequence[str], verb: str = "run") -> str:
    if command[0].endswith(_SCRIPTS):
        command = ["python" if command[0].endswith(".py") else "bash", *command]
    return _command_line([verb, *options, "--", *command])


def _command_line(words: Sequence[str], program: str = "worldsize ") -> str:
    return program + _shortened_text(shlex.join(words), 200)


def _help_command(verb: str) -> str:
    return f"worldsize {verb} --help"


def _shortened_text(text: str, most: int = _SHOWN) -> str:
    return printable_text(text if len(text) <= most else text[: most - 1] + "…")
