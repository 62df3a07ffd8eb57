"""What a node's ranks ask of the file server that has their packages: warm, where one process imports them for all, and
cold. Linux, as root.

The packages of this Python are mounted anew for each run by slow_share.py, which answers each request after a
millisecond, as a busy file server does, and counts them. Nothing of them is cached at the start; later the kernel keeps
contents, names for 30 s and attributes for 3 s, as for an NFS client, so that ranks of one node share what they read.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from harness import CHECKOUT, Bench, ratio

SERVER = os.path.join(CHECKOUT, "benchmarks", "slow_share.py")
PROGRAM = os.path.join(CHECKOUT, "benchmarks", "programs", "first_step.py")
WAYS = {"warm": "auto", "cold": "off"}
_DETACH = 2
_NEW_MOUNTS, _PRIVATE, _BIND, _REMOUNT, _READ_ONLY = 0x20000, 1 << 18 | 1 << 14, 1 << 12, 1 << 5, 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", default="1x4", help="nodes x ranks (default: %(default)s)")
    parser.add_argument("--delay-ms", type=float, default=1.0, help="of each request (default: %(default)s)")


def main() -> None:
    with Bench("import_share", __doc__, configure) as bench:
        found = importlib.util.find_spec("torch")
        if found is None or os.geteuid() or not os.path.exists("/dev/fuse"):
            sys.exit("bench_import_share.py needs torch, root and /dev/fuse")
        assert found.origin is not None
        site = os.path.dirname(os.path.dirname(found.origin))
        shared = tempfile.mkdtemp(prefix="worldsize-bench-share-")
        project = bench.project("project")
        shutil.copy(PROGRAM, os.path.join(project, "train.py"))
        runs: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        try:
            bind(site, shared)
            for number in range(bench.count(5, 2)):
                for way in sorted(WAYS, reverse=bool(number % 2)):
                    runs[way].append(list(measure(bench, project, shared, way)))
        finally:
            ctypes.CDLL(None).umount2(os.fsencode(shared), _DETACH)
            os.rmdir(shared)  # and nothing below it: this fails where something is still mounted
        show(bench, runs)
        bench.finish(runs)


def bind(source: str, target: str) -> None:
    """Mount the source there, for this process and its children alone, and for reading alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(_NEW_MOUNTS)
        or libc.mount(b"none", b"/", None, _PRIVATE, None)
        or libc.mount(os.fsencode(source), os.fsencode(target), None, _BIND, None)
        or libc.mount(b"none", os.fsencode(target), None, _BIND | _REMOUNT | _READ_ONLY, None)
    ):
        sys.exit("mount: %s" % os.strerror(ctypes.get_errno()))


def measure(bench: Bench, project: str, site: str, way: str) -> tuple[float, float]:
    """Requests of all ranks, and seconds until the last one has taken its first step."""
    out = os.path.join(bench.work, "out")
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    words = [sys.executable, SERVER, site, "--delay-ms", str(bench.options.delay_ms)]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdout.readline() == "mounted\n"
    command = [bench.worldsize, "run", "-w", bench.options.shape, "--set", "preload=" + WAYS[way]]
    command += ["--set", "environment_variables.PYTHONPATH=" + site, "--", "python", "train.py", out]
    began = time.time()
    try:
        subprocess.run(command, env=bench.environ(), cwd=project, stdout=subprocess.DEVNULL, check=True)
    finally:
        told, _ = server.communicate("")
    done = [json.load(open(os.path.join(out, name)))["done"] for name in os.listdir(out)]
    return float(told.split()[-1]), max(done) - began


def show(bench: Bench, runs: dict[str, list[list[float]]]) -> None:
    requests = {way: [each[0] for each in values] for way, values in runs.items()}
    seconds = {way: [each[1] for each in values] for way, values in runs.items()}
    rows = [
        [way, "%.0f" % statistics.median(requests[way]), "%.2f" % ratio(requests, way, "cold").median,
         "%.1f" % statistics.median(seconds[way]), "%.2f" % ratio(seconds, way, "cold").median]
        for way in runs
    ]  # fmt: skip
    title = "Requests of one node, %s ranks, %g ms each" % (bench.options.shape, bench.options.delay_ms)
    bench.table(title, ["ranks start", "requests", "over cold", "s until the first step", "over cold"], rows)


if __name__ == "__main__":
    main()
