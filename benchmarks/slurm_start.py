"""From the first line of a batch script to the first line of every rank: worldsize, a bare srun, srun torchrun.

When the script begins is written down by bash itself, before it reads the script (BASH_ENV): so all scripts are what
they are. The ranks write down when they have said their first line.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import statistics
from collections.abc import Callable

from harness import Bench, contest_rows, interval, ratio, rounds
from slurm_bed import PROGRAMS, Bed

RANKS_PER_NODE = 2
NODES = (2, 4)
FIRST_SH = ("bash", os.path.join(PROGRAMS, "first.sh"))
FIRST_PY = ("python", os.path.join(PROGRAMS, "first.py"))
OURS, SRUN, TORCHRUN = "worldsize", "srun", "srun torchrun"
STAGES = (
    "script begins until the first agent is up",
    "until every agent is up",
    "agents meet, ranks started on every node",
    "until every rank has printed a line",
)


def plain_script(words: str, tasks_per_node: int, nodes: int) -> str:
    return "#!/bin/bash\n#SBATCH --nodes=%d --ntasks-per-node=%d\n%s\n" % (nodes, tasks_per_node, words)


def torchrun_script(program: str, nodes: int) -> str:
    """As PyTorch's own multi-node examples have it: one torchrun per node, c10d rendezvous on the first."""
    words = [
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "srun torchrun --nnodes=%d --nproc-per-node=%d --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d \\"
        % (nodes, RANKS_PER_NODE),
        "    --rdzv-endpoint=$head:29500 " + program,
    ]
    return plain_script("\n".join(words), 1, nodes)


class Starts:
    """The contest on so many nodes; keeps the stages of each run of worldsize."""

    def __init__(self, bed: Bed, nodes: int) -> None:
        self._bed = bed
        self._nodes = nodes
        self._ranks = nodes * RANKS_PER_NODE
        self._project = bed.project("start%d" % nodes, {"train.py": "pass\n"})
        self.stages: list[list[float]] = []

    def contestants(self) -> dict[str, Callable[[], float]]:
        found = {}
        for shown, words in (("bash", FIRST_SH), ("python", FIRST_PY)):
            script = plain_script("srun %s %s" % (" ".join(words), self._bed.notes.path), RANKS_PER_NODE, self._nodes)
            found["%s, %s ranks" % (SRUN, shown)] = self._of_script("srun-%s.sh" % shown, script)
            found["%s, %s ranks" % (OURS, shown)] = self._of_worldsize(*words, self._bed.notes.path)
        if importlib.util.find_spec("torch"):
            script = torchrun_script("%s %s" % (FIRST_PY[1], self._bed.notes.path), self._nodes)
            found[TORCHRUN + ", python ranks"] = self._of_script("torchrun.sh", script)
        return found

    def _of_script(self, name: str, text: str) -> Callable[[], float]:
        path = self._bed.write(os.path.join(self._project, name), text)
        return lambda: self._measure("sbatch", path)

    def _of_worldsize(self, *words: str) -> Callable[[], float]:
        options = ["-w", "%dx%d" % (self._nodes, RANKS_PER_NODE)]

        def measure() -> float:
            took = self._measure(self._bed.worldsize, "submit", *options, "--", *words)
            self.stages.append(self._stages())
            return took

        return measure

    def _measure(self, *argv: str) -> float:
        self._bed.notes.clear()
        self._bed.run(*argv, cwd=self._project, environ=self._bed.stamped)
        (began,) = self._bed.notes.wait("job", 1)
        said = max(self._bed.notes.wait("rank", self._ranks))
        self._bed.wait_calm()
        return said - began

    def _stages(self) -> list[float]:
        notes = self._bed.notes
        (newest,) = sorted(glob.glob(os.path.join(self._bed.cluster.shared, "home", "runs", "2*")))[-1:]
        moments: dict[str, list[float]] = {}
        for path in glob.glob(os.path.join(newest, "attempt-0", "events", "node-*.jsonl")):
            with open(path, encoding="utf-8") as file:
                for event in map(json.loads, file):
                    moments.setdefault(event["event"], []).append(event["time"])
        agents = moments["agent_started"]
        marks = [*notes.moments("job"), min(agents), max(agents), max(moments["ranks_started"])]
        return [b - a for a, b in zip(marks, [*marks[1:], max(notes.moments("rank"))], strict=True)]


def contest(bench: Bench, bed: Bed) -> dict[str, dict[str, list[float]]]:
    """Seconds by size, contestant and round; puts tables and limits into `bench`."""
    samples = {}
    for nodes in NODES:
        starts = Starts(bed, nodes)
        sample = rounds(starts.contestants(), bench.count(10 if nodes == NODES[0] else 6, 2))
        report(bench, sample, "%d × %d" % (nodes, RANKS_PER_NODE))
        stage_table(bench, starts.stages, "%d × %d" % (nodes, RANKS_PER_NODE))
        samples[str(nodes)] = sample
    return samples


def report(bench: Bench, sample: dict[str, list[float]], size: str) -> None:
    bases = [name for name in sample if name.startswith((SRUN + ",", TORCHRUN)) and name.endswith("python ranks")]
    head = ["started by", "median ms", "10 % to 90 %", *("over " + base.split(",")[0] for base in bases)]
    bench.table("From job start to the last rank's first line, %s" % size, head, contest_rows(sample, bases))
    for shown in ("bash", "python"):
        pairs = zip(sample["%s, %s ranks" % (OURS, shown)], sample["%s, %s ranks" % (SRUN, shown)], strict=True)
        more = interval([(a - b) * 1e3 for a, b in pairs])
        bench.limit("first lines of %s %s ranks, over srun" % (size, shown), more.median, 80, "ms more")
    if bases[-1].startswith(TORCHRUN):
        found = ratio(sample, OURS + ", python ranks", bases[-1])
        bench.limit("first lines of %s python ranks, over srun torchrun" % size, found.median, 0.15)


def stage_table(bench: Bench, stages: list[list[float]], size: str) -> None:
    medians = [statistics.median(values) * 1e3 for values in zip(*stages, strict=True)]
    rows = [[name, "%.1f" % ms] for name, ms in zip(STAGES, medians, strict=True)]
    bench.table("Where worldsize's time goes, %s (medians)" % size, ["stage", "ms"], rows)
