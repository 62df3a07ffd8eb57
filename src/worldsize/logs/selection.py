"""Selection of ranks and lines: parsers for --rank, --node and --grep."""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.errors import UsageError
from worldsize.logs.text import format_ranges
from worldsize.plan.plan import NodePlan


def parse_nodes(spec: str, nodes: Sequence[NodePlan]) -> tuple[int, ...]:
    """Parse `spec`, the value of --node such as "0,2" or "0-3", and return the ranks of these nodes, ascending. Raise
    UsageError if it is no list of existing nodes."""
    wanted = set(parse_numbers(spec, len(nodes), "node"))
    return tuple(sorted(rank.rank for node in nodes if node.node_rank in wanted for rank in node.ranks))


def select_ranks(nodes: Sequence[NodePlan], rank: str | None = None, node: str | None = None) -> tuple[int, ...]:
    """Return the ranks that the options --rank (`rank`) and --node (`node`) both select, ascending; all ranks of
    `nodes` without options. Raise UsageError if an option is wrong, or if no rank is left."""
    selected = {rank_plan.rank for node_plan in nodes for rank_plan in node_plan.ranks}
    everyone = len(selected)
    if rank is not None:
        selected &= set(parse_numbers(rank, everyone, "rank"))
    if node is not None:
        on_nodes = parse_nodes(node, nodes)
        if not selected.intersection(on_nodes):
            raise UsageError(
                f"no rank of --rank {rank} is on --node {node}",
                hint=f"node {node} has ranks {format_ranges(on_nodes)}",
            )
        selected &= set(on_nodes)
    return tuple(sorted(selected))


def compile_grep(pattern: str) -> re.Pattern[str]:
    """Compile `pattern`, the regular expression of --grep, and return it. Raise UsageError that shows where the pattern
    is wrong."""
    try:
        return re.compile(pattern)
    except re.error as error:
        at = "" if error.pos is None else f" at position {error.pos}"
        raise UsageError(
            f"not a regular expression: {error.msg}{at}: {pattern!r}",
            where="--grep",
            hint="put a \\ before literal characters such as . [ ( * + ?",
        ) from None
    except (OverflowError, RecursionError) as overflow:
        raise UsageError(f"not a usable regular expression: {overflow}", where="--grep") from None


def parse_numbers(spec: str, count: int, word: str) -> tuple[int, ...]:
    """Parse `0,5,8-11` into (0, 5, 8, 9, 10, 11), numbers of `count` things that are called `word`. Raise UsageError,
    which names the valid range."""
    chosen: set[int] = set()
    for part in spec.split(","):
        first, dash, last = part.strip().partition("-")
        low = _number(first, spec, count, word)
        high = _number(last, spec, count, word) if dash else low
        if high < low:
            raise _selection_error(f"{low}-{high} ends before it begins", spec, count, word)
        chosen.update(range(low, high + 1))
    return tuple(sorted(chosen))


def _number(text: str, spec: str, count: int, word: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        raise _selection_error(f"{text!r} is not a {word}", spec, count, word)
    if len(text) > 9 or int(text) >= count:
        raise _selection_error(f"there is no {word} {text}", spec, count, word)
    return int(text)


def _selection_error(what: str, spec: str, count: int, word: str) -> UsageError:
    valid = f"{word}s are 0-{count - 1}" if count > 1 else f"the only {word} is 0"
    return UsageError(what, where=f"--{word} {spec}", hint=f"{valid}; write them as 0,2 or 0-3")
