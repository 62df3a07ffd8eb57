"""Two Open MPI processes on this node that report which transport they would use to reach other nodes.

They belong to no allocation: the variables by which mpirun finds Slurm are removed from their environment.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

from worldsize.agent.posix.processes import find_program
from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any
from worldsize.trust.secrets import mask_text
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.program_output import run_program
from worldsize.wings.checks.agent.readers.rank_directory import rank_python
from worldsize.wings.checks.agent.transport.mpi_log import VERBOSE, parse_mpi_log
from worldsize.wings.checks.agent.transport.origins import variable_origins

_LIMIT = 8.0
_FOREIGN = ("SLURM_", "PMI_", "PMIX_", "OMPI_COMM_", "ORTE_", "PRTE_", "PBS_", "LSB_")
_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT")
_SETTINGS = ("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS", "UCX_NET_DEVICES")
_DONE = "worldsize-mpi done"

_LIFELINE = """exec 3<&0
"$@" </dev/null 3<&- &
job=$!
{ read -r nothing <&3; kill "$job"; } 2>/dev/null &
watch=$!
wait "$job"
code=$?
kill "$watch"
exit "$code"
"""
"""The shell script that starts mpirun and kills it when standard input is closed. mpirun itself ignores the end of
standard input, so that its processes would be left running."""

# mpi4py has the library that ranks use; without it, the library next to mpirun is called.
PROGRAM = f"""
import sys
try:
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
except ImportError:
    import ctypes
    for name in sys.argv[1:]:
        try:
            library = ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            break
        except OSError:
            continue
    else:
        sys.exit("neither mpi4py nor libmpi.so could be loaded")
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
    if library.MPI_Init(None, None) or library.MPI_Barrier(world) or library.MPI_Finalize():
        sys.exit("MPI reported an error")
print({_DONE!r}, flush=True)
"""


def measure_mpi(context: NodeContext, folder: str) -> dict[str, Any]:
    """Run two Open MPI processes on this node. Return `mpi`, the result of `parse_mpi_log` together with the `settings`
    of the node's variables and their `origins`; or `mpi_failure`, the reason why there is no result. Never raise
    OSError, because this is a small part of the node's answer in the stage `bandwidth`."""
    try:
        mpirun = find_program("mpirun", context.environ)
        output = _run(context, folder, mpirun, rank_python(context))
    except OSError as error:
        return {"mpi_failure": f"{error.strerror or error}"}
    said = parse_mpi_log(output.splitlines())
    if not said.get("pml"):
        return {"mpi_failure": _last_words(output) or "Open MPI printed nothing"}
    settings = {name: context.environ[name] for name in _SETTINGS if name in context.environ}
    return {"mpi": {**said, "settings": settings, "origins": variable_origins(settings, context)}}


def _run(context: NodeContext, folder: str, mpirun: str, python: str) -> str:
    """Run two processes of the MPI test program under `mpirun` in `folder`, and return their output with stderr. They
    may share one core, because the job may have only one."""
    argv = [mpirun, "-np", "2", "--oversubscribe", "--bind-to", "none", python, "-c", PROGRAM, *_libraries(mpirun)]
    words = ["/bin/sh", "-c", _LIFELINE, "mpirun", *argv]
    return run_program(words, _environ(context.environ), folder, _LIMIT, lifeline=True).output


def _last_words(text: str) -> str:
    """Return the last line of a program's output that names an exception, otherwise its last line that is not empty:
    without secrets, at most 300 characters. Return "" for empty output."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=*\t")]
    errors = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith("[")]
    return mask_text(printable_text((errors or lines or [""])[-1]))[:300]


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    mine = {name: value for name, value in environ.items() if not name.startswith(_FOREIGN)}
    as_root = dict.fromkeys((*_AS_ROOT, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"), "1") if os.geteuid() == 0 else {}
    return {**mine, **VERBOSE, **as_root, "HWLOC_COMPONENTS": "-gl"}


def _libraries(mpirun: str) -> list[str]:
    """Return the possible paths of the MPI library: those in the lib directories of mpirun's installation first, then
    the names that the loader searches for."""
    prefix = os.path.dirname(os.path.dirname(mpirun))
    patterns = [os.path.join(glob.escape(prefix), folder, "libmpi.so*") for folder in ("lib", "lib64")]
    beside = sorted(path for pattern in patterns for path in glob.glob(pattern))
    return [*beside[:4], "libmpi.so.40", "libmpi.so"]
