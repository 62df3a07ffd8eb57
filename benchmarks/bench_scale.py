"""256 virtual nodes × 4 ranks on one machine: how long, how it grows with the ranks, and what memory an agent takes.

The yardstick is a shell loop that starts as many bare interpreters as there are nodes and as many /bin/true as there
are ranks: all in the background, then one wait, so that it has every core, as worldsize has.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from harness import Bench, contest_rows, pss, ratio, rounds, run

RANKS_PER_NODE = 4
NODES = (16, 64, 256)
TRUE = "/bin/true"
ONE_BY_ONE = "loop, one after the other"


def size(nodes: int) -> str:
    return "%dx%d" % (nodes, RANKS_PER_NODE)


def worldsize_name(nodes: int) -> str:
    return "worldsize run -w %s -- %s" % (size(nodes), TRUE)


def loop_name(nodes: int) -> str:
    return "loop: %d python -c pass, %d %s" % (nodes, nodes * RANKS_PER_NODE, TRUE)


def main() -> None:
    with Bench("scale", __doc__) as bench:
        project = bench.project("project", noop="pass\n")
        sample = contest(bench, project)
        growth(bench, sample)
        memory = [watch(bench, project, nodes) for nodes in NODES]
        memory_table(bench, memory)
        most = NODES[-1]
        bench.limit("1,024 ranks, over the loop", ratio(sample, worldsize_name(most), loop_name(most)).median, 1.5)
        finish_growth(bench, sample)
        bench.finish({"seconds": sample, "memory": [each._asdict() for each in memory]})


def contest(bench: Bench, project: str) -> dict[str, list[float]]:
    environ = bench.environ()
    words = (sys.executable, TRUE, RANKS_PER_NODE)
    many = "for i in $(seq %d); do {0} -c pass{3} for k in $(seq {2}); do {1}{3} done; done; wait"
    together, one_by_one = (many.format(*words, end) for end in (" &", ";"))

    def timed(*argv: str) -> Callable[[], float]:
        return lambda: run(argv, environ, project)

    contestants = {}
    for nodes in NODES:
        contestants[worldsize_name(nodes)] = timed(bench.worldsize, "run", "-w", size(nodes), "--", TRUE)
        contestants[loop_name(nodes)] = timed("/bin/sh", "-c", together % nodes)
    contestants[ONE_BY_ONE] = timed("/bin/sh", "-c", one_by_one % NODES[-1])
    sample = rounds(contestants, bench.count(15, 2))
    for nodes in NODES:
        pair = {name: sample[name] for name in (worldsize_name(nodes), loop_name(nodes))}
        if nodes == NODES[-1]:
            pair[ONE_BY_ONE] = sample[ONE_BY_ONE]
        head = ["command", "median ms", "10 % to 90 %", "over the loop"]
        title = "%d no-op ranks on %d virtual nodes" % (nodes * RANKS_PER_NODE, nodes)
        bench.table(title, head, contest_rows(pair, [loop_name(nodes)]))
    return sample


def cost(sample: dict[str, list[float]], nodes: int) -> list[float]:
    """Milliseconds per rank, round by round."""
    return [value * 1e3 / (nodes * RANKS_PER_NODE) for value in sample[worldsize_name(nodes)]]


def marginal(sample: dict[str, list[float]], fewer: int, more: int) -> float:
    """Milliseconds that each further rank costs: what a start costs at all is in both and falls out."""
    pairs = zip(sample[worldsize_name(fewer)], sample[worldsize_name(more)], strict=True)
    return statistics.median((b - a) * 1e3 / ((more - fewer) * RANKS_PER_NODE) for a, b in pairs)


def growth(bench: Bench, sample: dict[str, list[float]]) -> None:
    rows = []
    for index, nodes in enumerate(NODES):
        further = "%.2f" % marginal(sample, NODES[index - 1], nodes) if index else ""
        rows.append(["%d" % (nodes * RANKS_PER_NODE), "%.2f" % statistics.median(cost(sample, nodes)), further])
    bench.table("Cost per rank", ["ranks", "ms per rank, the whole command", "ms per further rank"], rows)


def finish_growth(bench: Bench, sample: dict[str, list[float]]) -> None:
    """Flat within a tenth: round by round, since a rank's cost is that of a process and moves with the machine."""
    few, some, many = NODES
    for fewer in (few, some):
        pairs = zip(cost(sample, many), cost(sample, fewer), strict=True)
        what = "cost per rank at %d ranks, over %d" % (many * RANKS_PER_NODE, fewer * RANKS_PER_NODE)
        bench.limit(what, statistics.median(a / b for a, b in pairs), 1.1)


class Memory(NamedTuple):
    """Proportional set sizes while all ranks sleep, in bytes."""

    nodes: int
    agents: list[int]
    conductor: int


def watch(bench: Bench, project: str, nodes: int) -> Memory:
    environ = bench.environ()
    submitted = subprocess.run(
        [bench.worldsize, "submit", "-w", size(nodes), "--", "sleep", "600"],
        env=environ, cwd=project, check=True, capture_output=True, text=True,
    )  # fmt: skip
    run_id = submitted.stdout.strip()
    try:
        conductor = _conductor(bench, run_id)
        agents = _settled(conductor, nodes)
        memory = Memory(nodes, [pss(pid) for pid in agents], pss(conductor))
    finally:
        subprocess.run(
            [bench.worldsize, "cancel", "--now", run_id], env=environ, cwd=project, check=True, capture_output=True
        )
        subprocess.run([bench.worldsize, "wait", run_id], env=environ, cwd=project, capture_output=True)
    return memory


def _conductor(bench: Bench, run_id: str) -> int:
    with open(os.path.join(bench.home, "runs", run_id, "handle.json"), encoding="utf-8") as file:
        return int(json.load(file)["pid"])


def _settled(conductor: int, nodes: int) -> list[int]:
    """The agents, once each has its ranks and a moment of calm has passed. RuntimeError after a minute."""
    for _ in range(600):
        agents = _children(conductor)
        if len(agents) == nodes and all(len(_children(agent)) == RANKS_PER_NODE for agent in agents):
            time.sleep(1)
            return agents
        time.sleep(0.1)
    raise RuntimeError("the ranks of %d nodes did not come up within a minute" % nodes)


def _children(pid: int) -> list[int]:
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def memory_table(bench: Bench, memory: list[Memory]) -> None:
    rows = []
    for each in memory:
        whole = each.conductor + sum(each.agents)
        figures = (statistics.median(each.agents), max(each.agents), each.conductor, whole / each.nodes)
        rows.append(["%d" % each.nodes, *("%.2f" % (figure / 2**20) for figure in figures)])
    head = [
        "virtual nodes",
        "an agent",
        "the largest agent",
        "the conductor",
        "per virtual node: agent and share of the conductor",
    ]
    bench.table("Memory in MiB (PSS, while the ranks sleep)", head, rows)


if __name__ == "__main__":
    main()
