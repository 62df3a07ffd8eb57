"""Rows about this machine: what jobs get here, its network, limits, GPUs and programs. All functions are pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.numbers import size_text
from worldsize.state.check_rows import CheckRow
from worldsize.wings.doctor.facts import LimitFacts
from worldsize.wings.doctor.programs import MISSING, Answer
from worldsize.wings.doctor.subjects.rows import no, shown_version, unknown, yes

Answers = Mapping[str, Answer]

PYTHON, SHELL, LOOPBACK = "jobs.python", "jobs.shell", "network.loopback"
NEEDED_HERE = (PYTHON, SHELL, LOOPBACK)
"""The rows without which no run works on this machine, in addition to the home's."""

_LEAST_PYTHON = (3, 8)
_LEAST_FILES = 4096
_LEAST_PROCESSES = 4096
_LEAST_MEMORY = 1 << 30
_CONTAINERS = ("apptainer", "singularity", "enroot", "docker", "podman")
_ENVIRONMENTS = ("conda", "mamba", "micromamba", "uv")
_PYXIS = "--container-image"


def job_rows(answers: Answers) -> Iterator[CheckRow]:
    """Yield the rows about the programs that every job needs: bash, and the Python that `python` means in a command."""
    bash = answers["bash"]
    if bash.succeeded:
        yield yes(SHELL, "bash, which executes commands", bash.path)
    else:
        yield _failed(bash, "bash", SHELL, "bash, which executes commands", "install bash", needed=True)
    python = answers.get("python", MISSING)
    version = re.match(r"(\d+)\.(\d+)", python.line)
    fix = "activate an environment that has one, or set `python` in [compute.local]"
    what = "the Python of jobs here"
    if python.succeeded and version:
        shown = f"{python.line} ({python.path})"
        if (int(version[1]), int(version[2])) < _LEAST_PYTHON:
            yield no(PYTHON, what, f"{shown} is older than 3.8", fix, needed=True)
        else:
            yield yes(PYTHON, what, shown)
    else:
        yield _failed(python, "python", PYTHON, what, fix, needed=True)


def _failed(answer: Answer, name: str, row: str, what: str, fix: str, needed: bool = False) -> CheckRow:
    """Return the row of the program `name`, which is missing, fails, or does not answer."""
    if not answer.path:
        return no(row, what, f"no {name} on PATH", fix, needed)
    if answer.code is None:
        return unknown(row, what, answer.path, answer.why)
    return no(row, what, f"{answer.path} fails with code {answer.code}: {answer.line}", fix, needed)


def network_rows(limits: LimitFacts, answers: Answers) -> Iterator[CheckRow]:
    what = "127.0.0.1"
    if limits.loopback:
        yield no(LOOPBACK, what, limits.loopback, "ip link set lo up; a container may be without a network", True)
    else:
        yield yes(LOOPBACK, what, "works")
    found, what = answers["name"], "this host's name"
    lines = [line.strip() for line in found.out.split("\n") if line.strip()]
    if found.succeeded and len(lines) > 1:
        yield yes("network.name", what, f"{lines[0]} is {lines[1]}")
    elif found.code is None:
        yield unknown("network.name", what, "not resolved", found.why or "no answer")
    else:
        fix = "add the name to /etc/hosts; or export WORLDSIZE_ADDRESS on nodes"
        yield no("network.name", what, f"{lines[0] if lines else 'it'} cannot be resolved", fix)


def ssh_rows(answers: Answers, keys: Sequence[str]) -> Iterator[CheckRow]:
    """Yield the rows about ssh. `keys` are the names of this user's key files. No host is contacted."""
    client = answers["ssh"]
    if not client.succeeded:
        yield _failed(client, "ssh", "ssh.client", "ssh", "install the OpenSSH client; no compute needs it")
        return
    yield yes("ssh.client", "ssh", shown_version(client))
    what, agent = "login without a password", answers.get("ssh-add", MISSING)
    held = len(agent.out.splitlines()) if agent.succeeded else 0
    found = [f"{held} in the agent"] if held else []
    found += [f"~/.ssh/{name}" for name in keys]
    if found:
        yield yes("ssh.keys", what, "keys: " + ", ".join(found))
    elif agent.path and agent.code is None:
        yield unknown("ssh.keys", what, "the agent", agent.why)
    else:
        yield no("ssh.keys", what, "no key, and no agent with one", "ssh-keygen -t ed25519; ssh-copy-id HOST")


def limit_rows(limits: LimitFacts) -> Iterator[CheckRow]:
    for row, what, (soft, hard), least, option in (
        ("limits.open_files", "open files", limits.open_files, _LEAST_FILES, "-n"),
        ("limits.processes", "processes", limits.processes, _LEAST_PROCESSES, "-u"),
    ):
        value = f"{_limit(soft)}, at most {_limit(hard)}" if soft != hard else _limit(soft)
        if 0 <= soft < least and (hard < 0 or hard > soft):
            yield no(row, what, value, f"ulimit {option} {hard if 0 <= hard < 65536 else 65536}, in `setup`")
        elif 0 <= soft < least:
            yield no(row, what, value, "root raises it in /etc/security/limits.conf")
        else:
            yield yes(row, what, value)
    room, what = limits.shared_memory, "/dev/shm"
    if room is None or room < _LEAST_MEMORY:
        value = "none" if room is None else size_text(room)
        fix = "a container gets more by --shm-size; data loaders with worker processes need it"
        yield no("limits.shm", what, value, fix)
    else:
        yield yes("limits.shm", what, size_text(room))


def _limit(number: int) -> str:
    return "no limit" if number < 0 else f"{number:,}"


def gpu_rows(answers: Answers, devices: Sequence[str]) -> Iterator[CheckRow]:
    """Yield the row about GPUs. `devices` are the names of GPU devices in /dev."""
    row, what, asked = "gpus.driver", "GPUs", answers["nvidia-smi"]
    found = [[part.strip() for part in line.split(",")] for line in asked.out.splitlines() if line.count(",") == 2]
    fix = "runs use CPUs here; `worldsize rehearse` gives ranks virtual GPUs"
    if asked.succeeded and found:
        models = ", ".join(f"{count} × {model}" for model, count in Counter(line[0] for line in found).items())
        yield yes(row, what, f"{models}, {found[0][1]}, driver {found[0][2]}")
    elif asked.path and asked.code is None:
        yield unknown(row, what, asked.path, asked.why)
    elif "kfd" in devices:
        yield yes(row, what, "AMD's driver (/dev/kfd)")
    elif asked.path or devices:
        value = asked.line if asked.path else f"/dev/{devices[0]}, but no nvidia-smi on PATH"
        yield no(row, what, value or "nvidia-smi finds none", "load NVIDIA's driver, or ask who runs this machine")
    else:
        yield no(row, what, "none", fix)


def software_rows(answers: Answers) -> Iterator[CheckRow]:
    mpi = answers["mpirun"]
    if mpi.succeeded:
        yield yes("mpi.mpirun", "MPI", shown_version(mpi))
    else:
        fix = "load its module, or install Open MPI; only jobs of type mpi need it"
        yield _failed(mpi, "mpirun", "mpi.mpirun", "MPI", fix)
    pyxis = answers["srun-help"]
    named = [f"{name} {_version(answers[name].line)}" for name in _CONTAINERS if answers[name].succeeded]
    named += ["pyxis (srun --container-image)"] if _PYXIS in pyxis.out else []
    fix = "install apptainer, or load its module; only jobs with an image need it"
    yield _any_of("containers.runtime", "container runtimes", named, [answers[name] for name in _CONTAINERS], fix)
    modules = answers["modules"]
    lines = [line.strip() for line in modules.out.split("\n") if line.strip()]
    if lines and lines[0] in ("function", "file", "alias"):
        yield yes("modules.command", "environment modules", _version(" ".join(lines[1:])) or "module")
    elif modules.path and modules.code is None:
        yield unknown("modules.command", "environment modules", "module", modules.why)
    else:
        fix = "only `modules:` of a job needs them; Lmod and Environment Modules are packages of most systems"
        yield no("modules.command", "environment modules", "no `module` in bash", fix)
    named = [f"{name} {_version(answers[name].line)}" for name in _ENVIRONMENTS if answers[name].succeeded]
    fix = "only for environments that you make yourself: worldsize needs no more than its extra env to build them"
    yield _any_of("environments.programs", "conda, uv", named, [answers[name] for name in _ENVIRONMENTS], fix)


def _any_of(row: str, what: str, named: Sequence[str], asked: Sequence[Answer], fix: str) -> CheckRow:
    """Return the row of a kind of program, of which one is enough."""
    silent = next((answer for answer in asked if answer.path and answer.code is None), None)
    if named:
        return yes(row, what, ", ".join(named))
    if silent is not None:
        return unknown(row, what, silent.path, silent.why)
    return no(row, what, "none", fix)


def _version(line: str) -> str:
    """Return the first number with a dot in a program's line about its version; "" if there is none."""
    found = re.search(r"\d+(?:\.\w+)+", line)
    return found[0][:40] if found else ""
