"""Start-up against the frameworks' own launchers: mpirun, deepspeed, horovodrun. (torchrun: bench_frameworks.py.)

Two ranks on one node that do nothing but find their place in the launcher's variables, so that no framework's import in
the ranks is measured: it costs both sides the same. What each launcher itself imports is its own. Each contest is left
out where its environment (`make setup`) or its launcher is not there.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Mapping

from harness import CHECKOUT, Bench, contest_rows, ratio, rounds, run

PLACE = {
    "find_mpi": "import os\nplace = int(os.environ['OMPI_COMM_WORLD_RANK']), int(os.environ['OMPI_COMM_WORLD_SIZE'])\n",
    "find_torch": "import os\nplace = os.environ['MASTER_ADDR'], int(os.environ['RANK'])\n",
    "find_horovod": "import os\nplace = int(os.environ['HOROVOD_RANK']), os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR']\n",
}
MPIRUN = "mpirun -np 2"
DEEPSPEED = "deepspeed --num_gpus 2"
HOROVODRUN = "horovodrun --gloo -np 2"
MPIRUN_MS = 120
"""What worldsize may take more than mpirun, which keeps no record and watches nobody."""


def main() -> None:
    with Bench("launchers", __doc__) as bench:
        project = bench.project("project", **PLACE)
        sample = {
            "mpi": contest_mpirun(bench, project),
            "deepspeed": contest_deepspeed(bench, project),
            "horovod": contest_horovodrun(bench, project),
        }
        bench.finish(sample)


def environment_of(name: str) -> str | None:
    """Where `make setup` has put it; None where it has not."""
    directory = os.path.join(CHECKOUT, ".venv-" + name)
    if os.path.exists(os.path.join(directory, "bin", "python")):
        return directory
    print("no .venv-%s: left out (make setup)" % name)
    return None


def by_worldsize(bench: Bench, project: str, kind: str, environment: str, command: list[str]) -> Callable[[], float]:
    job = os.path.join(project, "%s-%s.json" % (kind, os.path.basename(command[0])))
    value = {
        "argv": command,
        "code": ".",
        "environment": environment,
        "distribution": {"type": kind, "process_count_per_instance": 2},
    }
    with open(job, "w", encoding="utf-8") as file:
        json.dump(value, file)
    environ = variables(bench, environment)
    return lambda: run([bench.worldsize, "run", job], environ, project)


def variables(bench: Bench, environment: str) -> dict[str, str]:
    """Those of both sides: the framework's environment first on PATH, and DeepSpeed on CPUs."""
    path = os.path.join(environment, "bin") + os.pathsep + os.environ["PATH"]
    return {**bench.environ(), "PATH": path, "DS_ACCELERATOR": "cpu", **source()}


def source() -> Mapping[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))} if path else {}


def contest(
    bench: Bench, title: str, contestants: Mapping[str, Callable[[], float]], native: str, full: int
) -> dict[str, list[float]]:
    sample = rounds(contestants, bench.count(full, 2), warm=1)
    head = ["command", "median ms", "10 % to 90 %", "over " + native.split(" -")[0]]
    bench.table(title, head, contest_rows(sample, [native]))
    return sample


def contest_mpirun(bench: Bench, project: str) -> dict[str, list[float]]:
    environment = environment_of("mpi")
    if environment is None:
        return {}
    environ = variables(bench, environment)
    name = "worldsize, type: mpi"
    contestants = {
        name: by_worldsize(bench, project, "mpi", environment, ["python", "find_mpi.py"]),
        MPIRUN: lambda: run(["mpirun", "-np", "2", "python", "find_mpi.py"], environ, project),
    }
    sample = contest(bench, "Two ranks by mpirun that find their place", contestants, MPIRUN, 40)
    more = statistics.median(a - b for a, b in zip(sample[name], sample[MPIRUN], strict=True)) * 1e3
    bench.limit(name + ", more than mpirun", more, MPIRUN_MS, "ms")
    bench.limit(name + ", over mpirun", ratio(sample, name, MPIRUN).median, 2.0)
    return sample


def contest_deepspeed(bench: Bench, project: str) -> dict[str, list[float]]:
    environment = environment_of("deepspeed")
    if environment is None:
        return {}
    environ = variables(bench, environment)
    direct, launched = "worldsize, type: deepspeed", "worldsize, command: deepspeed"
    contestants = {
        direct: by_worldsize(bench, project, "deepspeed", environment, ["python", "find_torch.py"]),
        launched: by_worldsize(
            bench, project, "deepspeed", environment, ["deepspeed", "--no_local_rank", "find_torch.py"]
        ),
        DEEPSPEED: lambda: run(["deepspeed", "--num_gpus", "2", "--no_local_rank", "find_torch.py"], environ, project),
    }
    sample = contest(bench, "Two ranks of DeepSpeed that find their place", contestants, DEEPSPEED, 10)
    bench.limit(direct + ", over deepspeed", ratio(sample, direct, DEEPSPEED).median, 1.0)
    bench.limit(launched + ", over deepspeed", ratio(sample, launched, DEEPSPEED).median, 1.1)
    return sample


def contest_horovodrun(bench: Bench, project: str) -> dict[str, list[float]]:
    environment = environment_of("horovod")
    if environment is None:
        return {}
    environ = variables(bench, environment)
    name = "worldsize, type: horovod"
    contestants = {
        name: by_worldsize(bench, project, "horovod", environment, ["python", "find_horovod.py"]),
        HOROVODRUN: lambda: run(["horovodrun", "--gloo", "-np", "2", "python", "find_horovod.py"], environ, project),
    }
    sample = contest(bench, "Two ranks of Horovod that find their place", contestants, HOROVODRUN, 10)
    bench.limit(name + ", over horovodrun", ratio(sample, name, HOROVODRUN).median, 1.0)
    return sample


if __name__ == "__main__":
    main()
