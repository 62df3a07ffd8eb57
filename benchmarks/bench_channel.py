"""The control channel and the rendezvous: what nodes cost their head, with 64 and 256 real agents and up to 1,024
simulated members.

Real agents are virtual nodes of this machine. Simulated members are their side of the channel alone, against a real
head's agent over TCP (simulated_members.py), which may have 256 open files at first. What two members cost is taken
off, so that what the head does once, such as starting a rank, is in no member's cost. It is not taken off where 1,024
are compared with 64: so few cost little more than two, and the difference would be noise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator

from harness import Bench, pss
from simulated_members import SOFT_LIMIT, agent_pid, cpu_seconds, measure, source_path, wait_until

from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exits

REAL = (64, 256)
BASE = 2
FEW = (64, 256)
MOST = 1024
FLAT = 1.2
FAILED = 7

ACTS = {
    "join": "it joins, and gets the list of all nodes",
    "heartbeat": "one heartbeat, out and in",
    "verdict": "a verdict reaches it",
    "done": "it reports that nothing is left on it",
    "loss": "half of all are gone at once, and the rest know of it",
}
TIMED = ("join", "verdict", "loss")

Found = dict[str, float]


def main() -> None:
    with Bench("channel", __doc__, add_options) as bench:
        real = {nodes: [real_run(bench, nodes) for _ in range(bench.count(5, 1))] for nodes in REAL}
        real_table(bench, real)
        simulated = simulate(bench)
        seconds_table(bench, simulated)
        cost_table(bench, simulated)
        size_table(bench, simulated)
        limits(bench, simulated)
        bench.finish({"real": real, "simulated": simulated})


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--members", type=int, default=MOST, help="the most simulated members (default: %(default)s)")


def real_run(bench: Bench, nodes: int) -> Found:
    """One run of a rank on each of `nodes` virtual nodes, until one of the ranks fails."""
    environ = bench.environ(PYTHONPATH=source_path())
    project = os.path.join(bench.work, "project")
    os.makedirs(project, exist_ok=True)
    gate = os.path.join(bench.work, "gate")
    if not os.path.exists(gate):
        os.mkfifo(gate)
    script = '[ "$WORLDSIZE_RANK" = %d ] || exec sleep 600; read _ < %s; exit %d' % (nodes - 1, gate, FAILED)
    with _submitted(bench, nodes, script, environ, project) as run_id:
        paths = RunPaths(os.path.join(bench.home, "runs", run_id))
        started = [
            wait_until(lambda each=each: _time(paths, each, "ranks_started"), "node %d starts its rank" % each)
            for each in range(nodes)
        ]
        time.sleep(0.5)  # so that nothing of the start is under way any more
        head = agent_pid(paths)
        began = _time(paths, 0, "agent_started")
        found = {
            "joined": started[0] - began,
            "started": max(started) - began,
            "cpu": cpu_seconds(head),
            "pss": pss(head),
        }
        with open(gate, "w", encoding="ascii") as file:
            file.write("\n")
        ended = subprocess.run([bench.worldsize, "wait", run_id], env=environ, cwd=project, capture_output=True)
        if ended.returncode != FAILED:
            raise RuntimeError("the run ended with code %d: %s" % (ended.returncode, ended.stderr.decode()))
    failed = _time(paths, nodes - 1, "rank_exited")
    records = read_exits(paths, nodes)
    if len(records) != nodes or any(each.failure is None or each.failure.code != FAILED for each in records):
        raise RuntimeError("not every node's record has the verdict")
    found["verdict"] = max(_time(paths, each, "stopping") for each in range(nodes)) - failed
    found["recorded"] = max(each.ended for each in records) - failed
    return found


@contextlib.contextmanager
def _submitted(bench: Bench, nodes: int, script: str, environ: dict[str, str], project: str) -> Iterator[str]:
    argv = [bench.worldsize, "submit", "-w", "%dx1" % nodes, "--", "sh", "-c", script]
    submitted = subprocess.run(argv, env=environ, cwd=project, check=True, capture_output=True, text=True)
    run_id = submitted.stdout.strip()
    try:
        yield run_id
    except BaseException:
        subprocess.run([bench.worldsize, "cancel", "--now", "-y", run_id], env=environ, cwd=project)
        raise


def _time(paths: RunPaths, node_rank: int, event: str) -> float:
    """When this event was first written; 0 as long as it was not."""
    with contextlib.suppress(FileNotFoundError), open(paths.events(node_rank), encoding="utf-8") as file:
        lines = (json.loads(line) for line in file if line.endswith("\n"))
        return next((float(each["time"]) for each in lines if each["event"] == event), 0.0)
    return 0.0


def real_table(bench: Bench, real: dict[int, list[Found]]) -> None:
    rows = []
    for nodes, found in real.items():
        seconds = ["%.3f" % _median(found, name) for name in ("joined", "started", "verdict", "recorded")]
        rows.append([str(nodes), *seconds, "%.0f" % (_median(found, "cpu") * 1e3), _mib(found)])
    head = [
        "virtual nodes",
        "s until all have joined",
        "s until all ranks are started",
        "s from a rank's end until all nodes have the verdict",
        "s until all have recorded it",
        "CPU ms of the head's agent until the start",
        "its memory, MiB",
    ]
    bench.table("Real agents (medians)", head, rows)


def simulate(bench: Bench) -> dict[int, list[Found]]:
    """By their number, what was measured with so many members, round by round."""
    found: dict[int, list[Found]] = {count: [] for count in (BASE, *FEW, bench.options.members)}
    for number in range(bench.count(7, 1)):
        for count in sorted(found, reverse=number % 2 == 1):
            root = os.path.join(bench.work, "simulated-%d-%d" % (number, count))
            found[count].append(measure(root, count, bench.environ()))
    return found


def seconds_table(bench: Bench, simulated: dict[int, list[Found]]) -> None:
    rows = [
        [str(count), *("%.3f" % _median(simulated[count], name + " seconds") for name in TIMED)]
        for count in list(simulated)[1:]
    ]
    head = [
        "members",
        "s until all have joined and have the list of nodes",
        "s until all have the verdict",
        "s from the end of half of them until the rest have the verdict",
    ]
    bench.table("Simulated members, all of them in one process (medians)", head, rows)


def costs(simulated: dict[int, list[Found]], act: str, count: int, base: int = BASE) -> list[float]:
    """CPU seconds of the head for each member beyond `base`, round by round."""
    pairs = zip(simulated[count], simulated[BASE], strict=True)
    return [(more[act + " cpu"] - (less[act + " cpu"] if base else 0.0)) / (count - base) for more, less in pairs]


def growth(simulated: dict[int, list[Found]], act: str, count: int) -> float:
    """What a member costs among the most, over what it costs among `count`."""
    base = 0 if count == FEW[0] else BASE
    pairs = zip(costs(simulated, act, max(simulated), base), costs(simulated, act, count, base), strict=True)
    return statistics.median(most / less for most, less in pairs)


def cost_table(bench: Bench, simulated: dict[int, list[Found]]) -> None:
    rows = []
    sizes = list(simulated)[1:]
    for act, words in ACTS.items():
        micros = ["%.0f" % (statistics.median(costs(simulated, act, count)) * 1e6) for count in sizes]
        rows.append([words, *micros, "%.2f" % growth(simulated, act, FEW[-1])])
    head = ["what", *("among %d, µs" % count for count in sizes), "%d over %d" % (sizes[-1], FEW[-1])]
    bench.table("CPU of the head for each member (medians)", head, rows)


def size_table(bench: Bench, simulated: dict[int, list[Found]]) -> None:
    rows = []
    for count in list(simulated)[1:]:
        found = simulated[count]
        more = (_median(found, "pss") - _median(simulated[BASE], "pss")) / (count - BASE)
        sizes = ["%.1f" % (each / 1024) for each in (more, _median(found, "bytes of start"))]
        rows.append([str(count), _mib(found), *sizes, "%d" % _median(found, "open files")])
    head = [
        "members",
        "memory of the head, MiB",
        "of that for each member, KiB",
        "the list of nodes as it is sent, KiB",
        "open files that the head has allowed itself",
    ]
    bench.table("Sizes (medians)", head, rows)


def limits(bench: Bench, simulated: dict[int, list[Found]]) -> None:
    most = max(simulated)
    for act, words in ACTS.items():
        for count in reversed(FEW):
            bench.limit("%s: cost among %d, over %d" % (words, most, count), growth(simulated, act, count), FLAT)
    allowed = min(each["open files"] for each in simulated[most])
    what = "%d members, over the open files that the head has allowed itself (%d at first)" % (most, SOFT_LIMIT)
    bench.limit(what, most / allowed, 1.0)


def _median(found: list[Found], name: str) -> float:
    return statistics.median(each[name] for each in found)


def _mib(found: list[Found]) -> str:
    return "%.1f" % (_median(found, "pss") / 2**20)


if __name__ == "__main__":
    main()
