"""The program that judges a silent run by the two samples of its ranks' stacks, and by logs, processes and recorders.

It is executed as a program of its own on the node of the head's agent, since the comparison of the stacks of a thousand
ranks takes seconds, and reading logs can wait for a file server. Everything that it reads may be damaged, and is
bounded.

Standard library only: travels inside agent.pyz (Python >= 3.8).

    `ORDER | python -I -S -c PROGRAM PACKAGES`        hang.json in the attempt's directory

ORDER is JSON, see `Order`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence

from worldsize.common.atomic_files import read_if_possible, read_tail, write_json
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent.ras_query import ask_ras_of
from worldsize.wings.hangs.judgement.finding import RAS, RECORDER, Finding
from worldsize.wings.hangs.judgement.node_answer import NodeAnswer, parse_answer
from worldsize.wings.hangs.judgement.process_states import RankState, process_findings
from worldsize.wings.hangs.judgement.ras.ras_verdict import RankProcess, ras_findings
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings
from worldsize.wings.hangs.judgement.stacks.look_history import LookSummary, RankSummary
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_witness import StackJudgement, judge_stacks
from worldsize.wings.hangs.judgement.verdict import UNKNOWN, hang_verdict
from worldsize.wings.hangs.judgement.watchdog_lines import watchdog_findings

PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from worldsize.wings.hangs.agent.judge import main; main()"

_MOST_ANSWER = 1 << 20
"""The maximum number of bytes that are read of a node's sample."""

_MOST_LOG = 1 << 15
"""The number of bytes at a log's end that are searched for a watchdog's lines."""


class Order(NamedTuple):
    """The order for one judgement.

    root, attempt  the run's directory, and the number of the attempt
    samples        the numbers of the two samples
    world_size     the number of ranks of the run
    living         the ranks that are alive
    limit          seconds of silence after which a run is examined
    since          the beginning of the silence, in Unix seconds
    former         the `LookSummary` of each look since then, the oldest first
    asks_ras       whether NCCL RAS may be queried if nothing else names a rank; once in a run
    idle           the ranks whose GPUs were found to be idle
    """

    root: str
    attempt: int
    samples: tuple[int, ...]
    world_size: int
    living: tuple[int, ...]
    limit: float
    since: float
    former: tuple[Any, ...] = ()
    asks_ras: bool = False
    idle: tuple[int, ...] = ()


class Samples(NamedTuple):
    """The answers of all nodes at two moments: the stacks of each moment, the recorders' dumps of the second, and the
    node of each rank."""

    before: tuple[RankStacks, ...]
    after: tuple[RankStacks, ...]
    dumps: tuple[Dump, ...]
    nodes: Mapping[int, int]

    @property
    def own(self) -> list[RankStacks]:
        """The stacks of each rank's own Python in the second sample."""
        return [each for each in self.after if each.parent is None]


def judge(order: Order) -> dict[str, Any]:
    """Return the judgement on whether a silent run hangs, as the JSON values of hang.json. `alive` is true if the run
    works, or may work. There is a verdict with the suspected ranks only if it is false."""
    paths = RunPaths(order.root, order.attempt)
    samples = read_samples(paths, order.samples)
    living = set(order.living)
    ended = {rank: 0 for rank in range(order.world_size) if rank not in living}
    called_at = last_call(samples)
    looks = [look_of(each) for each in order.former]
    former = [each for each in looks if each is not None and each.at >= called_at]
    silent = max(0.0, time.time() - order.since)
    seen = judge_stacks(
        samples.before,
        samples.after,
        order.world_size,
        order.limit,
        ended,
        former,
        os.sysconf("SC_CLK_TCK"),
        silent,
        order.idle,
    )
    found: dict[str, Any] = {
        "alive": seen.alive,
        "reason": seen.reason,
        "groups": list(seen.groups),
        "samples": list(order.samples),
        "silent_since": order.since,
        "silent": round(silent, 1),
        "judged_at": time.time(),
        "summary": seen.summary,
    }
    if seen.alive:
        return found
    findings, missing = witnesses_of(seen, samples, ended, paths, order.world_size)
    verdict = hang_verdict(findings, samples.nodes, missing)
    if verdict.standing == UNKNOWN and order.asks_ras:
        found["asked_ras"] = True
        reply = ask_ras_of(each.pid for each in samples.own if samples.nodes[each.rank] == 0)
        if reply.text:
            findings += ras_findings(reply.text, [RankProcess(each.rank, each.pid) for each in samples.own])
        else:
            missing[RAS] = reply.refusal
        verdict = hang_verdict(findings, samples.nodes, missing)
    nodes = sorted({samples.nodes[rank] for rank in verdict.ranks if rank in samples.nodes})
    return {**found, **verdict._asdict(), "nodes": nodes}


def witnesses_of(
    seen: StackJudgement, samples: Samples, ended: Mapping[int, int], paths: RunPaths, world_size: int
) -> tuple[list[Finding], dict[str, str]]:
    """Return the findings about a run that makes no progress, from stacks, process states, flight recorders and logs,
    and a mapping with the reason for each of these sources that has none. NCCL RAS is not queried."""
    states = {each.rank: RankState(None, each.state) for each in samples.own}
    states.update({rank: RankState(code, "") for rank, code in ended.items()})
    findings: list[Finding] = [*seen.findings, *process_findings(states)]
    missing = {}
    if any(not each.fault for each in samples.dumps):
        findings += recorder_findings(samples.dumps, world_size)
    else:
        missing[RECORDER] = next((f"it {each.fault}" for each in samples.dumps), "no rank has left a dump")
    logs = {rank: log_end(paths.rank_log(rank)) for rank in sorted(states)}
    findings += watchdog_findings(logs, world_size)
    return findings, missing


def last_call(samples: Samples) -> float:
    """Return the time at which a rank entered the latest collective call in the flight recorders' dumps, in the clock
    of the looks; 0 if no dump has a call. The run made progress until then, so earlier looks do not show how long a
    rank has been in one place."""
    ages = [
        each.taken - max(entry.created for entry in each.entries)
        for each in samples.dumps
        if each.taken is not None and each.entries
    ]
    at = max((each.time for each in samples.after), default=0.0)
    return at - min((age for age in ages if age >= 0), default=at)


def read_samples(paths: RunPaths, numbers: Sequence[int]) -> Samples:
    """Return the watchdog's two samples of the run (stacks and flight recorder dumps), from the nodes that have
    answered. `numbers` are the samples' numbers."""
    told: list[dict[int, NodeAnswer]] = [answers(paths, number) for number in (*numbers, 0, 0)[:2]]
    nodes = {each.rank: node for node, answer in told[1].items() for each in answer.stacks}
    before, after = ([each for answer in sample.values() for each in answer.stacks] for sample in told)
    dumps = [each for answer in told[1].values() for each in answer.dumps]
    return Samples(tuple(before), tuple(after), tuple(dumps), nodes)


def answers(paths: RunPaths, number: int) -> dict[int, NodeAnswer]:
    """Return a mapping of node number to the answer of that node (stacks and flight recorder dumps) in the watchdog's
    sample `number`. Nodes without an answer are missing."""
    pattern = re.compile(rf"node-(\d{{4,9}})-{number:04d}\.jsonl")
    try:
        names = sorted(os.listdir(paths.stacks_dir))
    except OSError:
        return {}
    nodes = [int(match[1]) for match in map(pattern.fullmatch, names) if match is not None]
    return {node: parse_answer(_text(paths.stacks_of_node(node, number))) for node in nodes}


def _text(path: str) -> str:
    return read_if_possible(path, _MOST_ANSWER).decode("utf-8", "replace")


def log_end(path: str) -> list[str]:
    """Return the last lines of the rank's log `path`. Empty if it cannot be read."""
    try:
        return read_tail(path, _MOST_LOG).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def look_of(value: Any) -> LookSummary | None:
    """Return the watchdog's look at all ranks that an earlier judgement has kept as the JSON value `value`. None for an
    invalid value."""
    try:
        at, ranks = value
        return LookSummary(
            float(at), {int(rank): check_fields(tuple_of(RankSummary, each)) for rank, each in ranks.items()}
        )
    except PARSE_ERRORS:
        return None


def main() -> None:
    """Read the order to judge a silent run from standard input, and write the judgement to hang.json. Exit with an
    error for an invalid order."""
    try:
        order = check_fields(tuple_of(Order, json.loads(sys.stdin.buffer.read())))
    except PARSE_ERRORS as error:
        sys.exit(f"worldsize: this is not an order to judge a run: {error!r}")
    write_json(RunPaths(order.root, order.attempt).judged, judge(order))
