"""The own time of a check's head: a whole check of 64 and of 1,000 recorded nodes, through all its stages."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

from harness import Bench
from recorded_nodes import ASKED, SLOW_NODE, UNREACHED_NODE, RecordedNodes, address, label

from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.coordinator import Coordinator
from worldsize.wings.checks.agent.node_context import FULL
from worldsize.wings.checks.agent.node_program import load_stage
from worldsize.wings.checks.agent.selection import Selection
from worldsize.wings.checks.agent.stage_table import STAGES

SIZES = (64, 1000)
LIMITS = {64: 1.0, 1000: 10.0}
"""CPU seconds."""


class Head:
    """A head, and what its messages, and what it makes of them, take it: CPU seconds by stage. Messages are JSON, as
    on the wire; what the nodes themselves do is not counted."""

    def __init__(self, nodes: int) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes = 0
        self._recorded = RecordedNodes(nodes)
        self._sent: list[tuple[int, Mapping[str, Any]]] = []
        hosts = tuple(CheckedNode(rank, label(rank), label(rank), address(rank)) for rank in range(nodes))
        load = {entry.module: load_stage(entry.module) for entry in STAGES}
        self.it = Coordinator(Cluster(hosts, ASKED, FULL), Selection(FULL), load.__getitem__, self._send, 0.0, 1e9)

    def _send(self, node_rank: int, message: Mapping[str, Any]) -> None:
        text = json.dumps(message)
        self.bytes += len(text)
        self._sent.append((node_rank, message))

    def lead(self) -> None:
        """From what the nodes found by themselves to the end."""
        nodes = range(self._recorded.nodes)
        self._hear("probes", [(rank, self._recorded.probes(rank)) for rank in nodes])
        while not self.it.done:
            orders, self._sent = self._sent, []
            stage = str(orders[0][1]["stage"])
            self._hear(stage, [(rank, self._recorded.answer(rank, stage, said["order"])) for rank, said in orders])

    def _hear(self, stage: str, messages: list[tuple[int, dict[str, Any]]]) -> None:
        texts = [(rank, json.dumps(message)) for rank, message in messages]
        self.bytes += sum(len(text) for _, text in texts)
        gc.collect()
        began = time.process_time()
        for rank, text in texts:
            self.it.hear(rank, json.loads(text), 0.0)
        self.seconds[stage] = time.process_time() - began

    def require_verdicts(self) -> None:
        """AssertionError unless what is wrong is named, and nothing else is."""
        bad = {(row.node, row.id) for row in self.it.rows if row.verdict == "bad"}
        slow, unreached = label(SLOW_NODE), label(UNREACHED_NODE)
        assert bad == {(slow, "speed.compute"), (unreached, "network.port")}, bad


def contest(bench: Bench) -> dict[str, list[dict[str, float]]]:
    """CPU seconds by size, round and stage; puts a table and limits into `bench`."""
    samples: dict[str, list[dict[str, float]]] = {}
    amounts = {}
    for size in SIZES:
        found = []
        for _ in range(bench.count(5, 2)):
            head = Head(size)
            head.lead()
            head.require_verdicts()
            found.append(head.seconds)
        samples[str(size)] = found
        amounts[size] = head.bytes
    stages = list(samples[str(SIZES[0])][0])
    rows = [[name, *(_median([each[name] for each in samples[str(size)]]) for size in SIZES)] for name in stages]
    rows.append(["all", *(_median([sum(each.values()) for each in samples[str(size)]]) for size in SIZES)])
    rows.append(["MB of messages", *("%.1f" % (amounts[size] / 1e6) for size in SIZES)])
    head_line = ["answers of this stage, its rows, the next orders", *("%d nodes, CPU ms" % size for size in SIZES)]
    bench.table("The head of a whole check (medians)", head_line, rows)
    for size in SIZES:
        took = statistics.median(sum(each.values()) for each in samples[str(size)])
        bench.limit("the head's own time, %d nodes" % size, took, LIMITS[size], "s")
    return samples


def _median(values: list[float]) -> str:
    return "%.1f" % (statistics.median(values) * 1e3)
