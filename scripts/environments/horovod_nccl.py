"""The check of a Horovod that was compiled with NCCL: what its library is linked with, and what it says of itself.

    python -m scripts.environments.horovod_nccl .venv-horovod-nccl [FOLDER]

The directory is one that make-horovod-nccl.sh made. With a folder, a report is written there: horovod-nccl-DATE.md.
No GPU is used, even where there is one. Exit code: 1 if anything is not as it should be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scripts.environments.recipes import ROOT

JOB = os.path.join("examples", "environments", "allreduce.yml")
RECIPE = "../../examples/environments/horovod-nccl.yml"
STEP = "Horovod with NCCL"
LINKED = ("libnccl.so.2", "libcudart.so.13")
CALLED = ("ncclAllReduce", "ncclBroadcast", "ncclCommInitRank")
SUM = "sum 3, built with mpi and nccl and gloo"
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.+?)\]")

_FACTS = """
import json, platform, re
import horovod, torch
import horovod.torch as hvd
from horovod.torch import mpi_lib_v2
from importlib.metadata import version
mapped = sorted({line.split()[-1] for line in open("/proc/self/maps") if "/libnccl" in line})
print(json.dumps({
    "library": mpi_lib_v2.__file__, "built": hvd.nccl_built(), "cuda": hvd.cuda_built(), "mapped": mapped,
    "horovod": horovod.__version__, "torch": torch.__version__, "python": platform.python_version(),
    "nccl": version("nvidia-nccl-cu13"), "nvcc": version("nvidia-cuda-nvcc"), "cudart": version("nvidia-cuda-runtime"),
}))
"""


class Findings(NamedTuple):
    """What was found of a compiled Horovod.

    facts    what Python says of it, in its environment
    tools    the versions that compiled it, as worldsize recorded them
    seconds  what the build of the environment took, downloads included
    needed   the shared libraries that it is linked with
    undefined   the functions of NCCL that it takes from them
    missing  libraries that the loader does not find
    sections the names of its ELF sections
    check_build, job   what `horovodrun --check-build` and the run of JOB printed
    """

    facts: Mapping[str, Any]
    tools: Mapping[str, str]
    seconds: float
    needed: Sequence[str]
    undefined: Sequence[str]
    missing: Sequence[str]
    sections: str
    check_build: str
    job: str


def collect(directory: str) -> Findings:
    """Return what is found of a Horovod that make-horovod-nccl.sh built, after a run of JOB on two ranks here."""
    prefix = os.path.join(directory, "horovod")
    facts = json.loads(_output([os.path.join(prefix, "bin", "python"), "-c", _FACTS]).splitlines()[-1])
    library = facts["library"]
    return Findings(
        facts,
        *recorded(os.path.join(prefix, "worldsize-environment.json")),
        _NEEDED.findall(_output(["readelf", "--dynamic", "--wide", library])),
        re.findall(r"\bU (nccl\w+)", _output(["nm", "--dynamic", "--undefined-only", library])),
        re.findall(r"(\S+) => not found", _output(["ldd", library])),
        _output(["readelf", "--sections", "--wide", library]),
        _output([os.path.join(prefix, "bin", "horovodrun"), "--check-build"]),
        _job_output(directory, prefix),
    )


def recorded(path: str) -> tuple[dict[str, str], float]:
    """Return the tools that compiled Horovod, and the seconds of the build, of worldsize's description of it."""
    with open(path, encoding="utf-8") as file:
        description = json.load(file)
    return next(dict(step["tools"]) for step in description["steps"] if step["name"] == STEP), description["took"]


def problems(found: Findings, prefix: str) -> list[str]:
    """Return what is not as it should be, one sentence each."""
    said = []
    number = "%d%02d%02d" % tuple(map(int, found.facts["nccl"].split(".")[:3]))
    if str(found.facts["built"]) != number:
        said.append("nccl_built() is %s, and the wheel's NCCL %s" % (found.facts["built"], number))
    said += [
        "%s is not among the libraries that it is linked with" % name for name in LINKED if name not in found.needed
    ]
    said += ["it does not call %s" % name for name in CALLED if name not in found.undefined]
    said += ["the loader does not find %s" % name for name in found.missing]
    if not [path for path in found.facts["mapped"] if path.startswith(os.path.realpath(prefix) + os.sep)]:
        said.append("the NCCL that is loaded is not the environment's: %s" % (found.facts["mapped"] or "none"))
    if ".nv_fatbin" not in found.sections:
        said.append("it has no code for GPUs")
    if "[X] NCCL" not in found.check_build:
        said.append("horovodrun --check-build does not show NCCL")
    if found.job.count(SUM) != 2:
        said.append("its two ranks do not print `%s`" % SUM)
    return said


def report(found: Findings, date: str) -> str:
    """Return the report, as Markdown."""
    facts, tools = found.facts, found.tools
    rows = {
        "Horovod": "%s, from its sources on the package index" % facts["horovod"],
        "PyTorch": "%s, from the package index" % facts["torch"],
        "NCCL": "%s, headers and library of the wheel nvidia-nccl-cu13" % facts["nccl"],
        "CUDA": "nvcc %s and runtime %s, of the wheels nvidia-cuda-nvcc and nvidia-cuda-runtime"
        % (facts["nvcc"], facts["cudart"]),
        "Python": facts["python"],
        "gcc": tools["gcc"],
        "MPI": tools["mpi"],
        "machine": "%s, glibc %s" % (tools["platform"], tools["glibc"]),
        "built in": "%.0f s" % found.seconds,
    }
    lines = [
        "# Horovod with NCCL, compiled, %s" % date,
        "",
        "Compiled and linked by `make horovod-nccl`, from [its recipe](%s)." % RECIPE,
        "No GPU has executed it: what ran are two ranks that sum a number on CPUs.",
        "",
        "| | |",
        "| --- | --- |",
        *("| %s | %s |" % row for row in rows.items()),
        "",
        *closing_lines(found, "## ", ["", "```text"], ["```", ""]),
    ]
    return "\n".join(lines[:-1]) + "\n"


def closing_lines(found: Findings, mark: str, before: Sequence[str] = (), after: Sequence[str] = ()) -> list[str]:
    """Return what the check saw, with a title for each part."""
    parts = {
        "horovodrun --check-build": found.check_build.rstrip().splitlines(),
        "readelf: libraries that it is linked with": found.needed,
        "nm: functions of NCCL that it calls": found.undefined,
        "allreduce.yml on two ranks": found.job.rstrip().splitlines(),
    }
    return [line for title, rows in parts.items() for line in (mark + title, *before, *map(str.rstrip, rows), *after)]


def main(arguments: Sequence[str]) -> int:
    directory, *folders = map(os.path.abspath, arguments)
    found = collect(directory)
    print("\n".join(closing_lines(found, "==> ")), flush=True)
    said = problems(found, os.path.join(directory, "horovod"))
    for sentence in said:
        print("!!  %s" % sentence, file=sys.stderr)
    if said:
        return 1
    for folder in folders:
        date = time.strftime("%Y-%m-%d")
        path = os.path.join(folder, "horovod-nccl-%s.md" % date)
        with open(path, "w", encoding="utf-8") as file:
            file.write(report(found, date))
        print("==> %s" % path)
    print("==> compiled and linked with NCCL %(nccl)s; no GPU has executed it" % found.facts)
    return 0


def _job_output(directory: str, prefix: str) -> str:
    """Return what the ranks of JOB print, in an order that does not depend on their speed."""
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "WORLDSIZE_HOME": home, "CUDA_VISIBLE_DEVICES": ""}
        words = ["run", JOB, "-w", "1x2", "--set", "environment=" + os.path.realpath(prefix)]
        python = os.path.join(directory, "bin", "python")
        said = _output([python, "-m", "worldsize", *words], environ)
    return "\n".join(sorted(re.findall(r"rank \d of 2: .*", said)))


def _output(words: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    return subprocess.check_output(words, cwd=ROOT, env=environ, text=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
