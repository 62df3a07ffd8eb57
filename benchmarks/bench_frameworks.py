"""Start-up under each distribution, against the framework's own launcher, or its variables set by hand.

The ranks do nothing but find their place, so that no framework's import is measured: it costs both sides the same.
TensorFlow and JAX have no launcher; beside them stand two processes started with nothing but the variables, which keep
no record and watch nobody. torchrun is compared twice: with ranks started directly, and with `launcher: torchrun`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from harness import Bench, contest_rows, ratio, rounds, run

PLACE = {
    "tensorflow": "import json, os\ntask = json.loads(os.environ['TF_CONFIG'])['task']\n",
    "jax": "import os\nplace = os.environ['JAX_COORDINATOR_ADDRESS'], int(os.environ['JAX_PROCESS_ID'])\n",
    "pytorch": "import os\nplace = os.environ['MASTER_ADDR'], int(os.environ['RANK'])\n",
}
DISTRIBUTION = {
    "tensorflow": {"type": "tensorflow", "worker_count": 2},
    "jax": {"type": "jax", "process_count_per_instance": 2},
    "pytorch": {"type": "pytorch", "process_count_per_instance": 2},
    "torchrun": {"type": "pytorch", "process_count_per_instance": 2, "launcher": "torchrun"},
}
TORCHRUN = "torchrun --nproc-per-node=2"
BARE = "two processes with the variables"


def main() -> None:
    with Bench("frameworks", __doc__, configure) as bench:
        torch = bench.options.torch
        project = bench.project("project", **PLACE)
        sample = {kind: contest_bare(bench, project, kind) for kind in ("tensorflow", "jax")}
        sample["torchrun"] = contest_torchrun(bench, project, torch)
        bench.finish(sample)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--torch", default=sys.executable, help="the Python that has torch (default: this one)")


def by_worldsize(bench: Bench, project: str, kind: str, python: str, program: str) -> Callable[[], float]:
    job = os.path.join(project, kind + "-job.json")
    with open(job, "w", encoding="utf-8") as file:
        value = {"argv": ["python", program + ".py"], "code": ".", "distribution": DISTRIBUTION[kind]}
        own = {} if python == sys.executable else {"environment": os.path.dirname(os.path.dirname(python))}
        json.dump({**value, **own}, file)
    environ = bench.environ(**source())
    return lambda: run([sys.executable, "-m", "worldsize", "run", job], environ, project)


def source() -> Mapping[str, str]:
    """Where this Python finds worldsize, if it is told so by a variable."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))} if path else {}


def contest_bare(bench: Bench, project: str, kind: str) -> dict[str, list[float]]:
    name = "worldsize, type: " + kind
    contestants = {
        name: by_worldsize(bench, project, kind, sys.executable, kind),
        BARE: lambda: bare(bench, project, kind),
    }
    sample = rounds(contestants, bench.count(40, 5), warm=1)
    head = ["command", "median ms", "10 % to 90 %", "over the bare ones"]
    bench.table("Two ranks of %s that find their place" % kind, head, contest_rows(sample, [BARE]))
    return sample


def bare(bench: Bench, project: str, kind: str) -> float:
    """What a script of one's own would do, free ports included."""
    started = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, kind + ".py"], cwd=project, env={**bench.environ(), **variables})
        for variables in (tensorflow_variables() if kind == "tensorflow" else jax_variables())
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError("a rank of %s failed" % kind)
    return time.perf_counter() - started


def tensorflow_variables() -> list[dict[str, str]]:
    cluster = {"worker": ["127.0.0.1:%d" % free_port() for _ in range(2)]}
    tasks = ({"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2))
    return [{"TF_CONFIG": json.dumps(task)} for task in tasks]


def jax_variables() -> list[dict[str, str]]:
    address = "127.0.0.1:%d" % free_port()
    return [{"JAX_COORDINATOR_ADDRESS": address, "JAX_PROCESS_ID": str(index)} for index in range(2)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def contest_torchrun(bench: Bench, project: str, torch: str) -> dict[str, list[float]]:
    native = [torch, "-m", "torch.distributed.run", "--nproc-per-node=2", "pytorch.py"]
    environ = bench.environ(PATH=os.path.dirname(torch) + os.pathsep + os.environ["PATH"])
    contestants = {
        "worldsize, type: pytorch": by_worldsize(bench, project, "pytorch", torch, "pytorch"),
        "worldsize, launcher: torchrun": by_worldsize(bench, project, "torchrun", torch, "pytorch"),
        TORCHRUN: lambda: run(native, environ, project),
    }
    sample = rounds(contestants, bench.count(15, 3), warm=1)
    head = ["command", "median ms", "10 % to 90 %", "over torchrun"]
    bench.table("Two ranks of PyTorch that find their place", head, contest_rows(sample, [TORCHRUN]))
    for name in list(contestants)[:2]:
        bench.limit(name + ", over torchrun", ratio(sample, name, TORCHRUN).median, 1.1 if "launcher" in name else 1.0)
    return sample


if __name__ == "__main__":
    main()
