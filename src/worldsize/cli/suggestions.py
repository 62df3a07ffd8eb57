"""Hints about what the user probably meant, for command lines that are not understood. The module is loaded only for
such a command line."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Collection, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.reading.nearest import nearest_word

STARTING = ("run", "submit", "exec", "debug")
_JOB_VERBS = ("run", "submit", "rerun", "rehearse", "check", "bench")
_SCRIPTS = (".py", ".sh")
_JOB_FILES = (".yml", ".yaml")
_SHOWN = 60
_FILE_SIMILARITY = 0.75
"""The required similarity of file names. It is high because the names of job files all have the same endings."""

_OPTION_SIMILARITY = 0.75
"""The required similarity of options. It is high because an option that looks like another may mean something else:
only typing errors are corrected."""

_VERBS_ELSEWHERE = {
    "stop": "worldsize cancel RUN",
    "kill": "worldsize cancel RUN --now",
    "delete": "worldsize rm RUN",
    "start": "worldsize run JOB.YML, or worldsize submit JOB.YML",
    "sbatch": "worldsize submit SCRIPT.slurm",
    "srun": "worldsize run -w NxM -- COMMAND",
    "squeue": "worldsize list",
    "scancel": "worldsize cancel RUN",
    "download": "worldsize fetch RUN",
    "attach": "worldsize logs -f RUN",
    "show": "worldsize describe RUN",
    "inspect": "worldsize describe RUN",
    "history": "worldsize list --all",
    "torchrun": "worldsize run -w NxM -- python SCRIPT.py",
}
"""Verbs of other programs, and the command of worldsize that does the same."""

_OPTIONS_ELSEWHERE = {
    "--gpus": "-w NxM starts M processes on each node, one for each GPU; slurm.gpus_per_node of the job asks for more",
    "--gpus-per-node": "-w NxM starts M processes on each node; --set slurm.gpus_per_node=M",
    "--ntasks-per-node": "--nproc-per-node M, or -w NxM",
    "--nnodes": "--nodes N, or -w NxM",
    "--nproc_per_node": "--nproc-per-node M, or -w NxM",
    "--ntasks": "-w NxM",
    "--partition": "--set slurm.partition=NAME",
    "--account": "--set slurm.account=NAME",
    "--qos": "--set slurm.qos=NAME",
    "--time": "--timeout 12h",
    "--time-limit": "--timeout 12h",
    "--environment": "--env NAME=VALUE sets a variable; --set environment=FILE names an environment of packages",
    "--image": "--set environment.image=IMAGE",
    "--output": "-o json; logs are kept in the run: worldsize logs",
    "--job-name": "--name NAME",
    "--queue": "--compute NAME; on Slurm: --set slurm.partition=NAME",
    "--local": "--compute local",
    "--cluster": "--compute NAME",
    "--follow": "run follows by itself; for an existing run: worldsize logs -f RUN",
    "--dry": "--dry-run",
    "--yes": "-y",
}
"""Options of other programs, and the option of worldsize that does the same. If a verb has an option with such a name,
the verb's own meaning applies."""


def unknown_verb_error(words: Sequence[str], verb: str, verbs: Collection[str]) -> UsageError:
    """Return the UsageError, with a suggestion, for a command line whose first word that is no option, `verb`, is not a
    verb of worldsize. `verbs` are the existing ones."""
    later = next((word for word in words if word in verbs), None)
    if words[0].startswith("-") and later is not None:
        cut = words.index(later)
        mended = _command_line([later, *words[:cut], *words[cut + 1 :]])
        return UsageError(f"{_shortened_text(words[0])} is before the verb", None, f"options follow it: {mended}")
    if verb.endswith(_JOB_FILES):
        return UsageError(f"there is no verb {_shortened_text(verb)}", None, _command_line(["run", *words]))
    if verb.endswith(_SCRIPTS):
        return UsageError(f"there is no verb {_shortened_text(verb)}", None, _suggested_command([], words))
    if verb in _VERBS_ELSEWHERE:
        return UsageError(f"there is no verb {verb}", None, _VERBS_ELSEWHERE[verb])
    close = nearest_word(verb, verbs)
    hint = f"did you mean {close}?" if close else f"one of: {', '.join(verbs)}"
    return UsageError(f"there is no verb {_shortened_text(verb)}", None, hint)


def unknown_words_error(
    parser: argparse.ArgumentParser, verb: str, words: Sequence[str], extra: Sequence[str]
) -> UsageError:
    """Return the UsageError, with a suggestion, for words of a command line that the verb does not accept (`extra`),
    such as a misspelt option, or a command without `--`."""
    parser, verb = _innermost_parser(parser, verb, words)
    mine = words[words.index(verb) + 1 :] if verb in STARTING else []
    if verb in STARTING and not extra[0].startswith("-"):
        return _missing_dashes_error(mine, verb, extra)
    script = next((word for word in mine if word.endswith(_SCRIPTS)), None)
    if script is not None and mine.index(script) < mine.index(extra[0]):
        return UsageError(_script_text(script), None, _command_after_dashes(mine, script, extra, verb))
    option = next((word for word in extra if word.startswith("-")), None)
    if option is None:
        return UsageError(f"{verb} does not accept {_command_line(extra, '')}", None, _help_command(verb))
    name = option.partition("=")[0]
    return UsageError(f"{verb} has no option {_shortened_text(name)}", None, _nearest_option(parser, verb, name))


def _innermost_parser(
    parser: argparse.ArgumentParser, verb: str, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, str]:
    """Return the parser of the verb and the verb's name; if the verb has actions and `words` contains one, the parser
    of the action and the name "VERB ACTION"."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            chosen = next((word for word in words if word in action.choices), None)
            if chosen is not None:
                return action.choices[chosen], f"{verb} {chosen}"
    return parser, verb


def _nearest_option(parser: argparse.ArgumentParser, verb: str, name: str) -> str:
    options = [option for action in parser._actions for option in action.option_strings if option != "--help"]
    if name in _OPTIONS_ELSEWHERE and verb in _JOB_VERBS:
        return _OPTIONS_ELSEWHERE[name]
    meant = [option for option in options if option.startswith(name)] if len(name) > 2 else []
    plain = {option.lstrip("-"): option for option in options}
    close = meant[0] if len(meant) == 1 else plain.get(nearest_word(name.lstrip("-"), plain, _OPTION_SIMILARITY) or "")
    return f"did you mean {close}?" if close else _help_command(verb)


def _missing_dashes_error(words: Sequence[str], verb: str, extra: Sequence[str]) -> UsageError:
    """Return the UsageError, with the corrected command line, for a command without `--`, as in `run -w 2x2 python
    train.py --lr 0.1`. The command begins at the first word that was taken for the job file."""
    start = words.index(extra[0])
    if start > 0 and not os.path.isfile(words[start - 1]) and not words[start - 1].startswith("-"):
        start -= 1
    if words[start].endswith(_JOB_FILES):
        what = f"{verb} takes one job file; what to do with {_shortened_text(extra[0])}?"
        return UsageError(what, None, "inputs are set with --set inputs.NAME=VALUE")
    first = words[start]
    own = extra[1:] if first == extra[0] else extra
    return UsageError("a command goes after --", None, _command_after_dashes(words, first, own, verb))


def wrong_job_file_error(name: str, words: Sequence[str]) -> UsageError | None:
    """Return the UsageError, with the corrected command line, for a script or a program `name` in the place of a job
    file; None if the word may be a job file."""
    from shutil import which

    if name.endswith(_SCRIPTS):
        what = _script_text(name)
    elif os.path.exists(name) or name.endswith(_JOB_FILES) or os.sep in name or not which(name):
        return None
    else:
        what = "a command goes after --"
    return UsageError(what, None, _command_after_dashes(words[1:], name, (), words[0]))


def _script_text(name: str) -> str:
    return f"{_shortened_text(name)} is a script, not a job file"


def _command_after_dashes(words: Sequence[str], first: str, unknown: Sequence[str], verb: str) -> str:
    """Return the corrected command line for `words`, in which a command of the user begins at the word `first` without
    `--` before it. After `first`, the `unknown` words belong to the command. All others were read as options of
    worldsize, which must be before `--`."""
    start, left = words.index(first), list(unknown)
    moved = []
    for word in words[start + 1 :]:
        if left and word == left[0]:
            left.pop(0)
        else:
            moved.append(word)
    options, command = [*words[:start], *moved], [first, *unknown]
    if first.endswith(_SCRIPTS) and os.path.normpath(first).startswith(os.pardir + os.sep) and verb != "exec":
        options, command[0] = [*options, "--code", os.path.dirname(first)], os.path.basename(first)
    shown = _suggested_command(options, command, verb if verb in STARTING else "run")
    return f"{shown} (behind the command, {_command_line(moved, '')} would go to it)" if moved else shown


def missing_file_error(name: str) -> NotFound:
    """Return the NotFound error for the missing job file `name`; its hint names an existing job file of nearly the same
    name, if there is one."""
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
