"""Answers of NCCL's RAS, as text or as JSON: the processes of each communicator, and the number of operations of each
kind that they have launched (`src/ras/client_support.cc`).

The answers have quirks. `host` is the address of the interface that RAS uses, not the host's name. `rank` is that of
the communicator, not of the world. A text names the ranks that differ, and only counts the others. NCCL 2.28.3 to
2.28.9 write no comma after `nvml_dev` of a missing rank. An answer may be cut off anywhere.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

MOST_BYTES = 16 * 2**20
_MOST_RANKS = 100_000

_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "ReduceScatter": "reduce_scatter",
}
"""PyTorch's name of an operation, by NCCL's name."""

_LACKING_COMMA = re.compile(r'("nvml_dev": -?\d{1,9})(\s{0,40}"status": \{\s{0,40}"unresponsive")')
_COMMUNICATOR = re.compile(r"#\d{1,9}-\d{1,9} \(([0-9a-f]{1,16})\) (\w{1,20})")
_DIFFERENT = re.compile(r"Communicator ranks have different (\w{1,30}) operation counts")
_SEVERAL = re.compile(r"(\d{1,9}) ranks have (?:launched up to operation (\d{1,18})|not launched any operations)")
_ONE = re.compile(
    r"Rank (\d{1,9})( has launched up to operation (\d{1,18})| has not launched any operations|) -- "
    r"GPU.{1,40} managed by process (\d{1,9}) on node (\S{1,100})"
)
_DEAD = re.compile(r"Process (\d{1,9}) on node (\S{1,100}) managing GPU")


class RankCounts(NamedTuple):
    """A rank of a communicator: its host, its process, and the number of operations that it has launched, by kind.
    `counts` has only the kinds that the answer contains. `lost` is the reason, such as "unresponsive" or "dead", if the
    rank has not answered; "" if it has."""

    rank: int
    host: str
    pid: int
    counts: Mapping[str, int]
    lost: str = ""


class Communicator(NamedTuple):
    """A communicator of an answer. `size` is -1 if the answer does not contain it. `totals` is only filled by an answer
    in text: for each kind it has pairs of a count and the number of ranks that have launched that number of operations.
    """

    hash: str
    size: int
    ranks: tuple[RankCounts, ...]
    totals: Mapping[str, tuple[tuple[int, int], ...]] = {}


class Answer(NamedTuple):
    """An answer of RAS. `processes` contains every process that the answer names, as (host, pid). `dead` contains those
    that RAS considers dead. `fault` is the reason why the answer cannot be used, in words that can follow "the answer";
    "" if it is complete."""

    communicators: tuple[Communicator, ...]
    processes: frozenset[tuple[str, int]]
    dead: frozenset[tuple[str, int]]
    fault: str = ""


def read_answer(text: str) -> Answer:
    """Return the answer of NCCL's RAS in `text`, which is JSON or a text report. The answer has a `fault`, and nothing
    else, if the text is no answer of RAS, or not complete."""
    if len(text) > MOST_BYTES:
        return _faulty("is too long")
    if not text.strip():
        return _faulty("is empty")
    return _json_answer(text) if text.lstrip().startswith("{") else _text_answer(text)


def _faulty(fault: str) -> Answer:
    return Answer((), frozenset(), frozenset(), fault)


def _json_answer(text: str) -> Answer:
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = json.loads(_LACKING_COMMA.sub(r"\1,\2", text))
        except (ValueError, RecursionError):
            return _faulty("is incomplete")
    said = value.get("communicators") if isinstance(value, dict) else None
    if not isinstance(said, list) or "ras" not in value:
        return _faulty("is not a report of RAS")
    try:
        return _answer(tuple(map(_communicator, said)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _faulty("has content that no report of RAS has")


def _communicator(value: Any) -> Communicator:
    ranks = [_rank(each, "") for each in value["ranks"]]
    for each in value.get("missing_ranks", ()):
        status = each.get("status", {})
        lost = "dead" if status.get("considered_dead") is True else "unresponsive"
        ranks.append(_rank(each, lost if True in status.values() else "missing"))
    if len(ranks) > _MOST_RANKS:
        raise ValueError
    return Communicator(str(value["hash"])[:40], _whole(value["size"]), tuple(ranks))


def _rank(value: Any, lost: str) -> RankCounts:
    counts = value.get("collective_counts", {}).items()
    known = {_operation(name): _whole(count) for name, count in counts}
    return RankCounts(_whole(value["rank"]), str(value["host"])[:100], _whole(value["pid"]), known, lost)


def _whole(value: Any) -> int:
    if type(value) is not int or not -1 <= value < 2**63:
        raise ValueError
    return value


def _operation(name: str) -> str:
    return _NAMES.get(name, name[:30] if name.isidentifier() else "")


def _answer(communicators: tuple[Communicator, ...], dead: Iterable[tuple[str, int]] = ()) -> Answer:
    there = {(each.host, each.pid) for known in communicators for each in known.ranks if each.pid >= 0}
    lost = {(each.host, each.pid) for known in communicators for each in known.ranks if each.lost == "dead"}
    lost.update(dead)
    return Answer(communicators, frozenset(there | lost), frozenset(lost))


def _text_answer(text: str) -> Answer:
    """Return the answer of NCCL's RAS in a text report. The report is complete if it contains its last heading, and the
    line after that; otherwise the answer has a `fault`."""
    if "Job summary" not in text:
        return _faulty("is not a report of RAS")
    _, found, warnings = text.partition("\nWarnings\n========")
    if not found or not warnings.endswith("\n"):
        return _faulty("is incomplete")
    lines = text.splitlines()
    processes = {(match[2], int(match[1])) for match in map(_DEAD.search, lines) if match}
    communicators, state = [], _TextState("", {}, {}, {})
    heading, dead = "", set()
    for line in lines:
        match = _COMMUNICATOR.match(line)
        if match is not None:
            communicators.append(state.communicator())
            state = _TextState(match[1], {}, {}, {})
        heading = line if line in ("DEAD", "INCOMPLETE") else match[2] if match else heading
        named = _DEAD.search(line)
        if named is not None and heading == "DEAD":
            dead.add((named[2], int(named[1])))
        state.read(line, heading)
    communicators.append(state.communicator())
    answer = _answer(tuple(each for each in communicators if each.hash), dead)
    return answer._replace(processes=answer.processes | processes)


class _TextState(NamedTuple):
    """The contents of a report on one communicator so far. `at` holds the kind of operation that the present lines
    describe, and the count of the ranks that are listed next."""

    hash: str
    ranks: dict[int, RankCounts]
    totals: dict[str, list[tuple[int, int]]]
    at: dict[str, Any]

    def read(self, line: str, heading: str) -> None:
        different = _DIFFERENT.search(line)
        if different is not None:
            self.at.update(kind=_operation(different[1]), count=None)
            return
        kind, several, one = self.at.get("kind"), _SEVERAL.search(line), _ONE.search(line)
        if several is not None and kind is not None:
            self.at["count"] = int(several[2] or 0)
            self.totals.setdefault(kind, []).append((self.at["count"], int(several[1])))
        elif one is not None and self.hash:
            self._read_rank(one, kind, heading)

    def _read_rank(self, one: re.Match[str], kind: str | None, heading: str) -> None:
        number, count = int(one[1]), self.at.get("count")
        if one[2] and kind is not None:
            count = int(one[3] or 0)
            self.totals.setdefault(kind, []).append((count, 1))
        known = self.ranks.get(number)
        counts = dict(known.counts) if known else {}
        if kind is not None and count is not None:
            counts[kind] = count
        lost = "unresponsive" if heading == "INCOMPLETE" else known.lost if known else ""
        self.ranks[number] = RankCounts(number, one[5], int(one[4]), counts, lost)

    def communicator(self) -> Communicator:
        ranks = tuple(self.ranks[number] for number in sorted(self.ranks))
        totals = {kind: tuple(said) for kind, said in self.totals.items()}
        return Communicator(self.hash, -1, ranks, totals)
