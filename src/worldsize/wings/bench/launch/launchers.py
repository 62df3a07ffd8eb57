"""The launchers that can be measured: one entry of facts for each, with the command line that starts the ranks of a
program."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.version import VERSION
from worldsize.wings.bench.worlds import World

_ASKED_WITHIN = 60.0
_MOST = 4000
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")
_OPEN_MPI, _MPICH, _INTEL_MPI = "Open MPI", "MPICH", "Intel MPI"


class Start(NamedTuple):
    """The parts of a command line. `program` contains the words of a rank, beginning with its Python. `compute` is the
    compute on which worldsize starts the ranks (None: as configured), and `settings` are the keys that it changes."""

    program: tuple[str, ...]
    world: World
    compute: str | None = None
    settings: tuple[str, ...] = ()


class Launcher(NamedTuple):
    """A launcher that can be measured.

    command    returns the words of the command line for a `Start`, by the launcher that was found
    package    the Python distribution that has its version; "": the version is that of `--version`
    nodes      whether it starts ranks on several nodes; others start all ranks of a world on this machine
    gpus       whether it starts several ranks only on GPUs, as accelerate does
    variables  the variables that its environment must contain
    ended_by   the signal on which it terminates its ranks, on all nodes
    """

    name: str
    command: Callable[[FoundLauncher, Start], list[str]]
    package: str = ""
    nodes: bool = False
    gpus: bool = False
    variables: Mapping[str, str] = {}
    ended_by: int = signal.SIGTERM


class FoundLauncher(NamedTuple):
    launcher: Launcher
    path: str
    version: str


class Surroundings(NamedTuple):
    """The environment in which launchers are looked for.

    path   the directories where launchers are looked for
    local  whether ranks run on this machine; launchers for one machine cannot be used for another compute
    slurm  whether srun can start tasks: the compute is one of Slurm, or this is an allocation
    gpus   whether there is a GPU
    """

    path: str
    local: bool = True
    slurm: bool = False
    gpus: bool = False


def _worldsize(found: FoundLauncher, start: Start) -> list[str]:
    where = ["--compute", start.compute] if start.compute else []
    keys = [word for each in start.settings for word in ("--set", each)]
    words = [sys.executable, "-m", "worldsize", "run", "-w", str(start.world), "--fold", "off", "--no-check"]
    python, probe, *more = start.program
    return [*words, *where, *keys, "--code", os.path.dirname(probe), "--", python, os.path.basename(probe), *more]


def _torchrun(found: FoundLauncher, start: Start) -> list[str]:
    return [found.path, "--standalone", f"--nproc-per-node={start.world.ranks}", *start.program[1:]]


def _mpirun(found: FoundLauncher, start: Start) -> list[str]:
    """Return the command line of mpirun that starts the ranks of the launch benchmark. By default, Open MPI refuses to
    run as root and with more ranks than cores; the options against this are added only for Open MPI, because other
    implementations do not have them."""
    is_open_mpi = found.version.startswith(_OPEN_MPI)
    more = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])] if is_open_mpi else []
    return [found.path, *more, "-n", str(start.world.ranks), *start.program]


def _srun(found: FoundLauncher, start: Start) -> list[str]:
    size = (f"--nodes={start.world.nodes}", f"--ntasks={start.world.ranks}")
    return [found.path, *size, "--unbuffered", "--kill-on-bad-exit=1", *start.program]


def _accelerate(found: FoundLauncher, start: Start) -> list[str]:
    settings = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
    size = ("--num_processes", str(start.world.ranks))
    return [found.path, "launch", "--multi_gpu", *settings, *size, *start.program[1:]]


def _deepspeed(found: FoundLauncher, start: Start) -> list[str]:
    return [found.path, "--num_gpus", str(start.world.ranks), "--no_local_rank", *start.program[1:]]


def _horovodrun(found: FoundLauncher, start: Start) -> list[str]:
    return [found.path, "--gloo", "-np", str(start.world.ranks), *start.program]


LAUNCHERS = (
    Launcher("worldsize", _worldsize, nodes=True, ended_by=signal.SIGINT),
    Launcher("torchrun", _torchrun, "torch"),
    Launcher("accelerate", _accelerate, "accelerate", gpus=True),
    Launcher("deepspeed", _deepspeed, "deepspeed"),
    Launcher("horovodrun", _horovodrun, "horovod"),
    Launcher("mpirun", _mpirun),
    Launcher("srun", _srun, nodes=True),
)
_ON_CPUS = {"DS_ACCELERATOR": "cpu"}
"""Variables for DeepSpeed without GPUs. It looks for an accelerator first, and counts GPUs unless a variable states
that there are none."""


def find_launcher(launcher: Launcher, around: Surroundings) -> FoundLauncher | str:
    """Look for `launcher` in the directories and on the machine that `around` describes. Return the FoundLauncher with
    its path and version, or the reason, as a text, why it cannot be measured here."""
    if not launcher.nodes and not around.local:
        return "it starts ranks on this machine alone"
    if launcher.name == "srun" and not around.slurm:
        return "there is neither a compute of Slurm nor an allocation"
    if launcher.gpus and not around.gpus:
        return "it starts several ranks only on GPUs, and this machine has none"
    if launcher.name == "worldsize":
        return FoundLauncher(launcher, sys.executable, VERSION)
    path = shutil.which(launcher.name, path=around.path)
    if path is None:
        return "it is neither next to the ranks' Python nor on the PATH"
    variables = _ON_CPUS if launcher.name == "deepspeed" and not around.gpus else launcher.variables
    return FoundLauncher(launcher._replace(variables=variables), path, find_version(launcher, path))


def find_version(launcher: Launcher, path: str) -> str:
    """Return the version of the launcher at `path`: that of its Python package in the same environment if it has one,
    otherwise that of its output for `--version`. "" if neither gives one."""
    return package_version(launcher.package, path) if launcher.package else said_version(_output([path, "--version"]))


def said_version(text: str) -> str:
    """Return the name and the version of an MPI from `text`, the output of `mpirun --version`: "Open MPI 4.1.4" for
    `mpirun (Open MPI) 4.1.4`. The mpirun of MPICH names Hydra first, and that of Intel names its library."""
    found = _VERSION.search(text)
    hydra = _MPICH if re.search(r"(?i)hydra|mpich", text) else ""
    maker = _OPEN_MPI if "Open MPI" in text else _INTEL_MPI if "Intel(R) MPI" in text else hydra
    return f"{maker} {found[0] if found else ''}".strip()


def package_version(package: str, path: str) -> str:
    """Return the version of the Python distribution `package` in the environment whose bin/ contains `path`, from the
    name of a directory such as `torch-2.9.1.dist-info`; "" if there is none."""
    library = os.path.join(os.path.dirname(os.path.dirname(path)), "lib")
    for python in sorted(_names_in(library)):
        for name in _names_in(os.path.join(library, python, "site-packages")):
            if name.startswith(package + "-") and name.endswith(".dist-info"):
                return name[len(package) + 1 : -len(".dist-info")]
    return ""


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # it does not exist
        return []


def _output(words: list[str]) -> str:
    """Run the program `words` and return the first 4000 bytes of its standard output as text; "" if it cannot be
    started, or takes too long."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKED_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_MOST].decode("utf-8", "replace")
