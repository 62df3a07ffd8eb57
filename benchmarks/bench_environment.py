"""How soon 64 ranks have imported what they need: from a slow shared directory, and from each node's own disk.

The nodes are four of a real Slurm cluster made of namespaces (the tests'), with 16 ranks each. The shared directory is
slowed down by slow_share.py: every node mounts it by FUSE, with a cache of its own, and each request is answered after
a millisecond, as by a busy file server. It is mounted anew before each run, so that nothing is cached. A node's own
disk is its /tmp, which lies in memory. All nodes, and the file systems' servers, share this machine's cores: importing
itself takes much longer than on nodes of their own, and the gain shown is smaller.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import slurm_bed
from harness import CHECKOUT, Bench, interval

NODES, RANKS = 4, 16
DELAY_MS = 1.0
MODULES = 1000
PATIENCE = 900.0
SERVER = os.path.join(CHECKOUT, "benchmarks", "slow_share.py")
OF_TORCH = (
    "torch", "torchgen", "functorch", "numpy", "numpy.libs", "sympy", "mpmath", "networkx", "jinja2", "markupsafe",
    "filelock", "fsspec", "typing_extensions.py", "setuptools", "packaging",
)  # fmt: skip
PROGRAM = """\
import os, time
import %s
with open(os.environ["BENCH_NOTES"], "w") as notes:
    notes.write("up %%.6f\\n" %% time.time())
"""
WAYS = {
    "shared directory": "shared",
    "own disk, first run: each node unpacks": "local",
    "own disk, later runs": "again",
}


def make_environment(folder: str, module: str) -> str:
    """A virtual environment with a package of many small modules, or with this checkout's torch, which is linked."""
    prefix = os.path.join(folder, module)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    name = "python%d.%d" % sys.version_info[:2]
    site = os.path.join(prefix, "lib", name, "site-packages")
    if module == "torch":
        own = sysconfig.get_path("purelib")
        names = [name for name in os.listdir(own) if name in OF_TORCH or name.startswith(("torch-", "numpy-"))]
        subprocess.run(["cp", "-al", *(os.path.join(own, name) for name in names), site], check=True)
        return prefix
    heavy = os.path.join(site, "heavy")
    os.mkdir(heavy)
    for number in range(MODULES):
        with open(os.path.join(heavy, "part%d.py" % number), "w", encoding="utf-8") as file:
            file.write("".join("def f%d(x):\n    return x + %d\n\n\n" % (line, line) for line in range(10)))
    with open(os.path.join(heavy, "__init__.py"), "w", encoding="utf-8") as file:
        file.write("from heavy import %s\n" % ", ".join("part%d" % number for number in range(MODULES)))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "2", heavy], check=True)
    return prefix


class Shares:
    """The slow directory, as each node mounts it."""

    def __init__(self, bed: slurm_bed.Bed, directory: str, delay_ms: float) -> None:
        self._bed = bed
        self._directory = directory
        self._delay = delay_ms
        self._servers: list[subprocess.Popen[str]] = []

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Nothing of it is cached at the start."""
        cluster = self._bed.cluster
        words = [sys.executable, SERVER, self._directory, "--delay-ms", str(self._delay)]
        for node in cluster.node_names:
            argv = cluster.on_node(node, words)
            server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert server.stdout is not None and server.stdout.readline() == "mounted\n"
            self._servers.append(server)
        try:
            yield
        finally:
            self.requests = []
            for server in self._servers:
                out, _ = server.communicate("")
                self.requests.append(int(out.split()[-1]))
            self._servers = []


def forget(bed: slurm_bed.Bed) -> None:
    """The nodes' own disks are as before the first run."""
    for node in bed.cluster.node_names:
        subprocess.run(bed.cluster.on_node(node, ["sh", "-c", "rm -rf /tmp/worldsize-*"]), check=True)


def one(bed: slurm_bed.Bed, shares: Shares, prefix: str, way: str, ranks: int, module: str) -> dict[str, Any]:
    """Seconds until the last rank has imported, from the submission; and what the nodes took to get ready."""
    if way != "again":
        forget(bed)
    how = "local" if way == "again" else way
    job = {
        "command": "python first.py",
        "code": ".",
        "environment": {"python": prefix, "distribute": how},
        "environment_variables": {"BENCH_NOTES": bed.notes.path, "PYTHONDONTWRITEBYTECODE": "1"},
        "resources": {"instance_count": NODES},
        "distribution": {"type": "none", "process_count_per_instance": ranks},
    }
    project = os.path.dirname(bed.write("bench-%s/job.yml" % module, json.dumps(job)))
    bed.write("bench-%s/first.py" % module, PROGRAM % module)
    config = '[compute.bed]\ntype = "slurm"\ndata_dir = "%s/data"\n' % os.path.dirname(prefix)
    bed.write("bench-%s/worldsize.toml" % module, 'default_compute = "bed"\n' + config)
    bed.notes.clear()
    with shares.mounted():
        before = slurm_bed.time.time()
        subprocess.run([bed.worldsize, "run", "-q", "job.yml"], cwd=project, env=bed.environ, check=True,
                       capture_output=True, timeout=PATIENCE)  # fmt: skip
        ups = bed.notes.wait("up", NODES * ranks, PATIENCE)
    bed.wait_calm()
    return {"seconds": max(ups) - before, "prepared": prepared(bed), "requests": sum(shares.requests)}


def prepared(bed: slurm_bed.Bed) -> float:
    """Of the latest run: how long its slowest node took to get ready."""
    runs = os.path.join(bed.environ["WORLDSIZE_HOME"], "runs")
    events = os.path.join(runs, max(os.listdir(runs)), "attempt-0", "events")
    took = [0.0]
    for name in os.listdir(events):
        with open(os.path.join(events, name), encoding="utf-8") as file:
            took += [line["seconds"] for line in map(json.loads, file) if line["event"] == "prepared"]
    return max(took)


def contest(
    bench: Bench,
    bed: slurm_bed.Bed,
    shares: Shares,
    prefix: str,
    module: str,
    ranks: int,
    count: int,
) -> dict[str, list[dict[str, Any]]]:
    """The ways in turns; the packed file is made before."""
    sample: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
    one(bed, shares, prefix, "local", 1, module)
    for number in range(count):
        for name, way in WAYS.items():
            sample[name].append(one(bed, shares, prefix, way, ranks, module))
            print("  %s, round %d: %s" % (name, number + 1, sample[name][-1]), file=sys.stderr, flush=True)
    bench.table(*_table(sample, module, ranks))
    return sample


def _table(
    sample: Mapping[str, Sequence[Mapping[str, Any]]], module: str, ranks: int
) -> tuple[str, list[str], list[list[str]]]:
    what = "`import torch`" if module == "torch" else "a package of %d small modules" % MODULES
    shared = [each["seconds"] for each in sample["shared directory"]]
    rows = []
    for name, found in sample.items():
        seconds = [each["seconds"] for each in found]
        gain = interval([a / b for a, b in zip(shared, seconds, strict=True)])
        rows.append(
            [
                name,
                "%.1f" % statistics.median(seconds),
                "1" if seconds == shared else str(gain) if len(seconds) > 1 else "%.2f" % gain.median,
                "%.1f" % statistics.median(each["prepared"] for each in found) if found[0]["prepared"] else "",
                "%d" % statistics.median(each["requests"] for each in found),
            ]
        )
    head = ["environment", "s until all have imported", "times as fast as shared", "s of these to unpack", "requests"]
    return "%d ranks on %d nodes, %s" % (NODES * ranks, NODES, what), head, rows


def over_shared(sample: Mapping[str, Sequence[Mapping[str, Any]]], way: str) -> float:
    pairs = zip(sample[way], sample["shared directory"], strict=True)
    return statistics.median(a["seconds"] / b["seconds"] for a, b in pairs)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delay-ms", type=float, default=DELAY_MS, help="of each request (default: %(default)s)")
    parser.add_argument("--no-torch", action="store_true", help="leave torch out")


def main() -> None:
    with Bench("environment", __doc__, configure) as bench:
        missing = slurm_bed.missing()
        if missing or not os.path.exists("/dev/fuse"):
            missing = missing or ["no /dev/fuse"]
            print("!!  NO SLURM CLUSTER HERE, so nothing of it is measured: %s" % "; ".join(missing), file=sys.stderr)
            return
        has_torch = os.path.isdir(os.path.join(sysconfig.get_path("purelib"), "torch")) and not bench.options.no_torch
        flavour = slurm_bed.Flavour(accounting=False, cpus=RANKS, gpus=0, nodes=NODES)
        with slurm_bed.open_bed(bench, flavour) as bed:
            slow = os.path.join(bed.cluster.shared, "slow")
            os.mkdir(slow)
            shares = Shares(bed, slow, bench.options.delay_ms)
            ranks = 4 if bench.quick else RANKS
            prefix = make_environment(slow, "heavy")
            found = {"heavy": contest(bench, bed, shares, prefix, "heavy", ranks, bench.count(3, 1))}
            if has_torch:
                prefix = make_environment(slow, "torch")
                found["torch"] = contest(bench, bed, shares, prefix, "torch", ranks, bench.count(2, 1))
            shutil.rmtree(slow)
        for name, way in (
            ("later runs", "own disk, later runs"),
            ("first run", "own disk, first run: each node unpacks"),
        ):
            bench.limit("own disk, %s, over shared" % name, over_shared(found["heavy"], way), 1)
        bench.finish(found)


if __name__ == "__main__":
    main()
