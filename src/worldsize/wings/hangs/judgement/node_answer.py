"""The output of a node's collector: lines of stacks, and of dumps of the Flight Recorder.

The lines are distinguished by their form: a list of JSON holds stacks, an object a dump. The text may be cut short
anywhere, and may hold anything else, which is left out.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.recorder.dump_lines import parse_dump_line
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks, parse_stacks_line

MOST_CHARACTERS = 16 << 20

_MOST_LINES = 100_000


class NodeAnswer(NamedTuple):
    """The answer of one node, or of several.

    stacks   those of each process, in the order of the lines
    dumps    at most one of each rank, the last in the text; those that cannot be read have a `fault`
    """

    stacks: tuple[RankStacks, ...] = ()
    dumps: tuple[Dump, ...] = ()


def parse_answer(text: str, most: int = MOST_CHARACTERS) -> NodeAnswer:
    """Return a node's stacks and Flight Recorder dumps in the first `most` characters of `text`, the output of the
    node's stack collector. Raise nothing for any text."""
    stacks: list[RankStacks] = []
    dumps: dict[int, Dump] = {}
    for line in text[:most].split("\n", _MOST_LINES)[:_MOST_LINES]:
        if line.startswith("["):
            found = parse_stacks_line(line)
            if found is not None:
                stacks.append(found)
        elif line.startswith("{"):
            dump = parse_dump_line(line)
            if dump is not None:
                dumps[dump.rank] = dump
    return NodeAnswer(tuple(stacks), tuple(dumps[rank] for rank in sorted(dumps)))
