"""What starts ranks: one row of facts for each launcher, with the words that start so many ranks of a program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.bench.worlds import World

_ASKED_WITHIN = 60.0
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")


class Start(NamedTuple):
    """What a command line is made of. `program`: the words of a rank, its Python first; `compute`: where worldsize is
    to start them; None: as it is configured."""

    program: tuple[str, ...]
    world: World
    compute: str | None


class Launcher(NamedTuple):
    """command   the words for `start`, after the path of the launcher's own program
    package   the distribution of Python that has its version; "": its program is asked
    nodes     it starts ranks on several nodes; others start all ranks of a world on this machine
    gpus      it starts several ranks on GPUs alone, as accelerate does
    variables what its environment must have
    """

    name: str
    command: Callable[[str, Start], list[str]]
    package: str = ""
    nodes: bool = False
    gpus: bool = False
    variables: Mapping[str, str] = {}


class FoundLauncher(NamedTuple):
    launcher: Launcher
    path: str
    version: str


def _worldsize(path: str, start: Start) -> list[str]:
    where = ["--compute", start.compute] if start.compute else []
    words = [sys.executable, "-m", "worldsize", "run", "-w", str(start.world), "--fold", "off", "--no-check"]
    python, probe, *more = start.program
    return [*words, "--code", os.path.dirname(probe), *where, "--", python, os.path.basename(probe), *more]


def _torchrun(path: str, start: Start) -> list[str]:
    return [path, "--standalone", f"--nproc-per-node={start.world.ranks}", *start.program[1:]]


def _mpirun(path: str, start: Start) -> list[str]:
    """Open MPI refuses root, and more ranks than cores; MPICH knows neither option."""
    is_open_mpi = "Open MPI" in _first_line([path, "--version"])
    more = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])] if is_open_mpi else []
    return [path, *more, "-n", str(start.world.ranks), *start.program]


def _srun(path: str, start: Start) -> list[str]:
    world = start.world
    return [
        path,
        f"--nodes={world.nodes}",
        f"--ntasks={world.ranks}",
        "--unbuffered",
        "--kill-on-bad-exit=1",
        *start.program,
    ]


def _accelerate(path: str, start: Start) -> list[str]:
    ranks = str(start.world.ranks)
    words = [path, "launch", "--multi_gpu", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    return [*words, "--num_processes", ranks, *start.program[1:]]


def _deepspeed(path: str, start: Start) -> list[str]:
    return [path, "--num_gpus", str(start.world.ranks), "--no_local_rank", *start.program[1:]]


def _horovodrun(path: str, start: Start) -> list[str]:
    return [path, "--gloo", "-np", str(start.world.ranks), *start.program]


_HAS_GPUS = os.path.exists("/dev/nvidiactl")
_ON_CPUS = {} if _HAS_GPUS else {"DS_ACCELERATOR": "cpu"}
LAUNCHERS = (
    Launcher("worldsize", _worldsize, nodes=True),
    Launcher("torchrun", _torchrun, "torch"),
    Launcher("accelerate", _accelerate, "accelerate", gpus=True),
    Launcher(
        "deepspeed",
        _deepspeed,
        "deepspeed",
        variables={} if os.path.exists("/dev/nvidiactl") else {"DS_ACCELERATOR": "cpu"},
    ),
    Launcher("horovodrun", _horovodrun, "horovod"),
    Launcher("mpirun", _mpirun),
    Launcher("srun", _srun, nodes=True),
)


def find_launchers(names: Sequence[str], path: str, slurm: bool) -> list[FoundLauncher]:
    """Those of these names that lie in the directories of `path`, in the order of the table. srun is looked for where
    it would start something: on a compute of Slurm, or in an allocation."""
    found = []
    for each in LAUNCHERS:
        if each.name not in names or (each.name == "srun" and not slurm) or (each.gpus and not _HAS_GPUS):
            continue
        program = sys.executable if each.name == "worldsize" else shutil.which(each.name, path=path)
        if program is not None:
            found.append(FoundLauncher(each, program, find_version(each, program)))
    return found


def find_version(launcher: Launcher, program: str) -> str:
    """By the names of the packages beside it; else as its program says. "" where neither tells."""
    if launcher.name == "worldsize":
        from worldsize.version import VERSION

        return VERSION
    if launcher.package:
        return _package_version(launcher.package, program)
    found = _VERSION.search(_first_line([program, "--version"]))
    return found[0] if found else ""


def _package_version(package: str, program: str) -> str:
    library = os.path.join(os.path.dirname(os.path.dirname(program)), "lib")
    for python in sorted(_names_in(library)):
        for name in _names_in(os.path.join(library, python, "site-packages")):
            if name.startswith(package + "-") and name.endswith(".dist-info"):
                return name[len(package) + 1 : -len(".dist-info")]
    return ""


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _first_line(words: list[str]) -> str:
    """What the program says first; "" where it fails, or takes too long."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKED_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]
