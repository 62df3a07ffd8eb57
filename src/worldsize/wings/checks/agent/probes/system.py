"""Probe for the node's system. It returns the facts that the head compares between the nodes, and no rows.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.agent.machine.cores import online_cores
from worldsize.agent.machine.node_files import text_of
from worldsize.common.named_tuple import Any
from worldsize.trust.secret_names import is_secret_name
from worldsize.trust.secrets import is_secret
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult

_OF_INTEREST = (
    "UCX_", "OMPI_MCA_", "FI_", "PSM2_", "I_MPI_", "GLOO_", "TORCH_NCCL_", "HOROVOD_", "OMP_NUM_THREADS",
    "MKL_NUM_THREADS", "LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF", "XLA_FLAGS", "CUDA_DEVICE_ORDER", "PYTHONHASHSEED",
)  # fmt: skip
"""Names, and prefixes of names, of variables that determine how ranks communicate and compute."""

_OF_ONE_PROCESS = re.compile(
    r"OMPI_MCA_(orte|ess|pmix|plm|prte|initial|shmem_RUNTIME|hwloc_base_report|rmaps)|I_MPI_(HYDRA|RANK|PIN_INFO)"
    r"|HOROVOD_(RANK|LOCAL|CROSS|SIZE|HOSTNAME|GLOO)"
)
"""The variables that a launcher sets for each node or process, so that their values differ by design."""

_MOST_VARIABLES, _LONGEST = 200, 200


def probe(context: NodeContext) -> ProbeResult:
    """Return the facts about the node that the head compares between the nodes: kernel, locale, nccl_variables,
    nccl_files, variables, cores, cpu_model, memory_mib and boot_id. A fact that cannot be read is omitted."""
    in_files = _nccl_files(context)
    own = {name: value for name, value in context.environ.items() if name.startswith("NCCL_")}
    variables = {**{name: value for name, (value, _) in in_files.items()}, **own}
    facts: dict[str, Any] = {
        "kernel": _first_line(context, "proc", "sys", "kernel", "osrelease"),
        "locale": locale_of(context.environ),
        "nccl_variables": _shown(variables),
        "nccl_files": {name: path for name, (_, path) in in_files.items() if name not in own},
        "variables": _shown({name: context.environ[name] for name in context.environ if _is_of_interest(name)}),
        "cores": online_cores(context.root) or None,
        "cpu_model": _cpu_model(context),
        "memory_mib": _memory_mib(context),
        "boot_id": _first_line(context, "proc", "sys", "kernel", "random", "boot_id"),
    }
    return ProbeResult((), {name: value for name, value in facts.items() if value not in (None, "")})


def locale_of(environ: Mapping[str, str]) -> str:
    """Return the locale by which Python encodes text: that of LC_ALL, else LC_CTYPE, else LANG, in one spelling. The
    locale C gives "C.UTF-8", because Python uses UTF-8 in it (PEP 538, PEP 540)."""
    name = next((environ[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(key)), "C")
    if name in ("C", "POSIX"):
        return "C.UTF-8"
    return re.sub(r"(?i)\.utf-?8(?=$|@)", ".UTF-8", name)[:_LONGEST]


def _is_of_interest(name: str) -> bool:
    return name.startswith(_OF_INTEREST) and not _OF_ONE_PROCESS.match(name)


def _shown(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those of the environment `variables` that have no secret in their name or value, in alphabetical order,
    with values cut to 200 characters. At most 200 are returned."""
    shown = (name for name in sorted(variables) if not is_secret_name(name) and not is_secret(name, variables[name]))
    return {name: variables[name][:_LONGEST] for name, _ in zip(shown, range(_MOST_VARIABLES))}


def _nccl_files(context: NodeContext) -> dict[str, tuple[str, str]]:
    """Return the NCCL variables that NCCL reads from files: a mapping of the variable's name to its value and the path
    of the file. NCCL ignores them if the environment sets the same variable. The user's file comes before
    /etc/nccl.conf (NCCL's manual, "Environment Variables": NCCL_CONF_FILE)."""
    home, named = context.environ.get("HOME", ""), context.environ.get("NCCL_CONF_FILE", "")
    first = named or (os.path.join(home, ".nccl.conf") if home else "")
    found: dict[str, tuple[str, str]] = {}
    for shown, path in ((first, first), ("/etc/nccl.conf", context.path("etc", "nccl.conf"))):
        for line in text_of(path).split("\n") if path else ():
            name, sign, value = line.strip().partition("=")
            if sign and re.fullmatch(r"NCCL_\w+", name):
                found.setdefault(name, (value, shown))
    return found


def _cpu_model(context: NodeContext) -> str | None:
    """Return the model name of the node's x86 CPU; for other CPUs, the field of /proc/cpuinfo that distinguishes the
    models. None if the file has no such field."""
    text = text_of(context.path("proc", "cpuinfo"))
    for key in ("model name", "cpu", "CPU part"):
        found = re.search(rf"(?m)^{key}\s*:\s*(\S.*?)\s*$", text)
        if found:
            return " ".join(found[1].split())[:_LONGEST]
    return None


def _memory_mib(context: NodeContext) -> int | None:
    found = re.search(r"(?m)^MemTotal:\s*(\d{1,15}) kB", text_of(context.path("proc", "meminfo")))
    return int(found[1]) // 1024 if found else None


def _first_line(context: NodeContext, *names: str) -> str:
    return text_of(context.path(*names)).partition("\n")[0].strip()[:_LONGEST]
