"""The options of sbatch, srun and sbcast, and a parser that reads them from words as those programs do.

The names and arguments are those of Slurm's manual pages (20.11 to 25.05). Standard library only: travels inside
agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

NEVER, ALWAYS, MAYBE = "never", "always", "maybe"
"""The kinds of options by their value. MAYBE: the value is optional, and only in the same word, as in
`--exclusive=user` or `-K1`."""

NO_OPTION = "is not an option"
"""The fault of a word that looks like an option and is not one."""


class ParsedOption(NamedTuple):
    """An option as it was given: its long name and its value (None: given without a value)."""

    name: str
    value: str | None


class ParsedWords(NamedTuple):
    """The result of reading options from words.

    options   the known options, in order
    unknown   words that look like options and are none, and options whose value is missing: (word, fault, index)
    rest      the index of the first word that belongs to no option
    """

    options: tuple[ParsedOption, ...]
    unknown: tuple[tuple[str, str, int], ...]
    rest: int


_BOTH = """
account/A acctg-freq bb bbf begin/b chdir/D cluster-constraint clusters/M comment constraint/C container core-spec/S
cores-per-socket cpu-freq cpus-per-gpu cpus-per-task/c deadline delay-boot dependency/d distribution/m error/e exclude/x
export extra extra-node-info/B gid gpu-bind gpu-freq gpus/G gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
hint input/i job-name/J licenses/L mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network
nodefile/F nodelist/w nodes/N ntasks/n ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode
output/o partition/p power prefer priority profile qos/q reservation segment signal sockets-per-node switches
thread-spec threads-per-core time/t time-min tmp tres-bind tres-per-task uid wckey
contiguous! help/h! hold/H! overcommit/O! oversubscribe/s! quiet/Q! reboot! spread-job! stepmgr! test-only! usage!
use-min-nodes! verbose/v! version/V!
exclusive? nice? no-kill/k? propagate?
"""
_SBATCH = """
array/a batch container-id export-file kill-on-invalid-dep wait-all-nodes wrap
ignore-pbs! no-requeue! parsable! requeue! wait/W!
get-user-env? x11?
"""
_SRUN = """
accel-bind bcast-exclude container-id cpu-bind epilog het-group jobid launcher-opts mpi msg-timeout prolog relative/r
slurmd-debug task-epilog task-prolog threads/T wait/W
disable-status/X! exact! external! interactive! label/l! multi-prog! no-allocate/Z! overlap! preserve-env/E!
quit-on-interrupt! unbuffered/u!
bcast? compress? immediate/I? kill-on-bad-exit/K? pty? resv-ports? send-libs? x11?
"""
_SBCAST = """
exclude fanout/F jobid/j size/s timeout/t treewidth
force/f! preserve/p! verbose/v! version/V! help/h! usage!
compress/C? send-libs?
"""
_ALIASES = {
    "tasks": "ntasks", "tasks-per-node": "ntasks-per-node", "share": "oversubscribe", "workdir": "chdir",
    "cpu_bind": "cpu-bind", "mem_bind": "mem-bind", "pack-group": "het-group",
}  # fmt: skip
_WITH = {"!": NEVER, "?": MAYBE}


class OptionTable(NamedTuple):
    """The options of a program: whether each takes a value, by long name, and the long name of each single letter."""

    takes: Mapping[str, str]
    letters: Mapping[str, str]


def _parse_table(text: str) -> OptionTable:
    takes, letters = {}, {}
    for entry in text.split():
        kind = _WITH.get(entry[-1], ALWAYS)
        name, _, letter = entry.rstrip("!?").partition("/")
        takes[name] = kind
        if letter:
            letters[letter] = name
    return OptionTable(takes, letters)


@lru_cache(None)
def sbatch_table() -> OptionTable:
    return _parse_table(_BOTH + _SBATCH)


@lru_cache(None)
def srun_table() -> OptionTable:
    return _parse_table(_BOTH + _SRUN)


def sbcast_table() -> OptionTable:
    return _parse_table(_SBCAST)


def read_options(words: Sequence[str], table: OptionTable) -> ParsedWords:
    """Read the options of `table` from a program's `words` as getopt_long does: `--name=value`, `--name value`, unique
    beginnings of names, `-N2`, `-N 2`, `-lK1`. Stop reading at `--` or at the first word that is not an option. Return
    the options, the faults and the index of the rest as ParsedWords."""
    options: list[ParsedOption] = []
    unknown: list[tuple[str, str, int]] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return ParsedWords(tuple(options), tuple(unknown), index + 1)
        if len(word) < 2 or word[0] != "-":
            break
        following = words[index + 1] if index + 1 < len(words) else None
        read = _read_long if word.startswith("--") else _read_short
        found, fault, used = read(word, following, table)
        options += found
        if fault:
            unknown.append((word, fault, index))
        index += used
    return ParsedWords(tuple(options), tuple(unknown), index)


if TYPE_CHECKING:
    _Read = Tuple[List[ParsedOption], str, int]
    """The options, a fault or "", and the number of words that were read."""


def _read_long(word: str, following: str | None, table: OptionTable) -> _Read:
    typed, equals, value = word[2:].partition("=")
    name = _full_name(typed, table)
    if name is None:
        return [], NO_OPTION, 1
    kind = table.takes[name]
    if kind == NEVER:
        return [ParsedOption(name, None)], "takes no value" if equals else "", 1
    if equals or kind == MAYBE:
        return [ParsedOption(name, value if equals else None)], "", 1
    if following is None:
        return [], "has no value", 1
    return [ParsedOption(name, following)], "", 2


def _full_name(typed: str, table: OptionTable) -> str | None:
    typed = _ALIASES.get(typed, typed)
    if typed in table.takes:
        return typed
    meant = [name for name in table.takes if typed and name.startswith(typed)]
    return meant[0] if len(meant) == 1 else None


def _read_short(word: str, following: str | None, table: OptionTable) -> _Read:
    found: list[ParsedOption] = []
    for position in range(1, len(word)):
        name = table.letters.get(word[position])
        if name is None:
            return found, NO_OPTION, 1
        kind, rest = table.takes[name], word[position + 1 :]
        if kind == NEVER:
            found.append(ParsedOption(name, None))
        elif rest or kind == MAYBE:
            return [*found, ParsedOption(name, rest or None)], "", 1
        elif following is None:
            return found, "has no value", 1
        else:
            return [*found, ParsedOption(name, following)], "", 2
    return found, "", 1
