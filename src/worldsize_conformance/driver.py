"""A driver for the command line in tests: real processes, a separate home directory, and a check that nothing is left
behind."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, NamedTuple

from worldsize_conformance.json_check import asks_for_json, check_output

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The directory from which worldsize is imported."""


def needed_sources() -> list[str]:
    """Return the list of directories that PYTHONPATH must contain so that worldsize is found. For an installed
    worldsize it is empty; nodes with another Python would fail on such directories."""
    return [] if SOURCE in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else [SOURCE]


@functools.cache
def agent_bundle() -> tuple[str, bytes]:
    """Return the file name and the content of worldsize's agent.pyz, which is created once per process. Creating it
    takes ten times the duration of a short run."""
    from worldsize.snapshot.agent_bundle import ensure_agent_bundle

    with tempfile.TemporaryDirectory() as folder:
        path = ensure_agent_bundle(folder)
        with open(path, "rb") as file:
            return os.path.basename(path), file.read()


def lend_bundle(home: str) -> None:
    """Create the worldsize home directory `home`, which already contains the agent.pyz that its first run would
    create."""
    name, content = agent_bundle()
    for folder in (home, os.path.join(home, "cache")):
        os.mkdir(folder, 0o700)
    with open(os.open(os.path.join(home, "cache", name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Cli:
    """The command line of worldsize. `cli("run", "job.yml")` runs `worldsize run job.yml` in `project`; `home` contains
    its runs. With `-o json`, the output must match the schema that `worldsize schema run` prints.

    With `ordinary`, permissions apply to it even if the tests run as root. With `lends`, a home directory that does not
    exist yet has an agent.pyz when the first run begins, and is removed again if that run was refused.
    """

    ordinary = False
    lends = True

    def __init__(self, root: str) -> None:
        self.root = root
        self.home = os.path.join(root, "home")
        self.project = os.path.join(root, "project")
        os.mkdir(self.project)
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        self.environ = {
            **kept,
            "HOME": root,
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(needed_sources()),
            "WORLDSIZE_HOME": self.home,
            "WORLDSIZE_SITE_CONFIG": os.path.join(root, "no-site.toml"),
            "WORLDSIZE_TRUST_PROJECT": "1",
        }

    def __call__(self, *words: str, cwd: str | None = None, timeout: float = 60, **environ: str) -> Result:
        is_new = not os.path.lexists(self.home)
        with self.start(*words, cwd=cwd, **environ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if is_new:
            self._take_back()
        result = Result(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
        if asks_for_json(words):
            check_output(words, result.out)
        return result

    def start(self, *words: str, cwd: str | None = None, **environ: str) -> subprocess.Popen[bytes]:
        """Start the worldsize command line `words` and return its process, with its two output streams as pipes.
        `environ` contains further environment variables. Signals that the test runner ignores are not ignored."""
        starts = words[:1] and words[0] in ("run", "submit", "debug", "rehearse", "bench") and "--dry-run" not in words
        own = "WORLDSIZE_HOME" not in environ and self.environ["WORLDSIZE_HOME"] == self.home
        if self.lends and starts and own and not os.path.lexists(self.home):
            with contextlib.suppress(OSError):  # if no home can be created, the run reports that
                lend_bundle(self.home)
        return subprocess.Popen(
            [sys.executable, "-m", "worldsize", *words],
            cwd=cwd or self.project,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_as_an_ordinary_user if self.ordinary else _default_signals,
        )

    def _take_back(self) -> None:
        """Remove the test's home directory if it contains only the lent agent.pyz, because the run was refused."""
        with contextlib.suppress(OSError):  # there is no home, or it cannot be read
            cache = os.path.join(self.home, "cache")
            if os.listdir(self.home) == ["cache"] and os.listdir(cache) == [agent_bundle()[0]]:
                shutil.rmtree(self.home)

    def ok(self, *words: str, **environ: Any) -> Result:
        """Run a worldsize command that must succeed, and return its Result. Raise AssertionError if its exit code is
        not 0."""
        result = self(*words, **environ)
        assert result.code == 0, result
        return result

    def json(self, *words: str, **environ: str) -> Any:
        return json.loads(self.ok(*words, "-o", "json", **environ).out)

    def submit(self, *words: str) -> str:
        """Submit a run with `worldsize submit` and the given words, and return its id without waiting for the run."""
        return self.ok("submit", *words).out.strip()

    def run(self, *words: str, code: int = 0) -> str:
        """Run a job to its end with `worldsize run` and the given words. Return the id of the latest run in this test's
        home directory. Raise AssertionError if the exit code is not `code`."""
        result = self("run", *words)
        assert result.code == code, result
        return self.latest()

    def latest(self) -> str:
        """Return the id of the only run in the test's home directory, or of the first one in `worldsize list`, which is
        the latest."""
        runs = os.path.join(self.home, "runs")
        names = os.listdir(runs) if os.path.isdir(runs) else []
        if len(names) == 1 and os.path.exists(os.path.join(runs, names[0], "plan.json")):
            return names[0]
        run_id: str = self.json("list", "-n", "1")[0]["id"]
        return run_id

    def status(self, *run: str) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.json("status", *run)
        return status

    def path(self, run: str, *parts: str) -> str:
        """Return the path of `parts` below the directory of the run `run` in the test's home directory. The directory
        of an array's element is in that of its array."""
        array, line, _ = run.partition("_")
        return os.path.join(self.home, "runs", array, *([run] if line else []), *parts)

    def read(self, run: str, *parts: str) -> str:
        with open(self.path(run, *parts)) as file:
            return file.read()

    def events(self, run: str, node: int, attempt: int = 0) -> list[dict[str, Any]]:
        """Return the events that the agent of the node number `node` has recorded so far in an attempt of the run, as a
        list of JSON objects."""
        path = self.path(run, "attempt-%d" % attempt, "events", "node-%04d.jsonl" % node)
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def has_begun(self, run: str, attempt: int = 0) -> bool:
        """Return whether the head node's agent has recorded that the ranks of an attempt of the run have started, so
        that the run is RUNNING. Ranks can act earlier than that."""
        return any(each["event"] == "ranks_started" for each in self.events(run, 0, attempt))

    def read_project(self, name: str) -> str:
        with open(os.path.join(self.project, name)) as file:
            return file.read()

    def write(self, name: str, text: str) -> str:
        """Write `text` to the file `name` of the test's project, and return its path."""
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def processes(self) -> dict[int, str]:
        """Return a mapping of process id to command line of every living process whose WORLDSIZE_HOME is this test's
        home directory: those that its runs have started, and those that drive them."""
        mark = b"WORLDSIZE_HOME=%s\0" % self.home.encode()
        found = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/environ" % name, "rb") as file:
                        ours = mark in file.read() + b"\0"
                    if ours:
                        with open("/proc/%s/cmdline" % name) as file:
                            found[int(name)] = file.read().replace("\0", " ")
                except OSError:
                    continue
        return {pid: words for pid, words in found.items() if words}

    def close(self) -> None:
        """Wait at most 30 seconds until no process of this test's home directory is left. Then kill the processes that
        are left, and raise AssertionError if there are any."""
        if not wait_for(lambda: not self.processes(), 30, raises=False):
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            raise AssertionError("left behind: %s" % left)


def _as_an_ordinary_user() -> None:
    """Drop the capabilities with which root ignores file permissions, from the next program on, and reset signals to
    their defaults."""
    prctl = ctypes.CDLL(None).prctl
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _default_signals()


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def heard(stream: IO[bytes] | None, words: str) -> str:
    """Read the output `stream` of a process up to the first line that contains `words`, and return the text read. Raise
    AssertionError if the stream ends before."""
    assert stream is not None
    text = line = ""
    while words not in line:
        line = stream.readline().decode()
        assert line, "no %r in what it wrote: %s" % (words, text)
        text += line
    return text


def all_up(process: subprocess.Popen[bytes], nodes: int) -> None:
    """Read the output of `process`, a client of `exec`, until each of `nodes` nodes has printed `up`, in a line of its
    own or in a line for several nodes."""
    assert process.stdout is not None
    while nodes:
        line = process.stdout.readline().decode()
        assert line.endswith(": up\n"), line
        nodes -= int(line[1]) if line.startswith("×") else 1


def unfolded(lines: Iterable[str]) -> list[str]:
    """Return the texts of `exec`'s or `logs`'s output lines, sorted, each once for every node or rank that printed it:
    "×2: text" counts twice. Live output has a second line for a node that is late."""
    said = []
    for line in lines:
        who, _, text = line.partition(": ")
        said += [text] * int(who.partition("×")[2] or 1)
    return sorted(said)


def sleepers(seconds: str) -> list[int]:
    """Return the process ids of the processes `sleep SECONDS` on this machine."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    if file.read().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                        found.append(int(name))
            except OSError:
                continue
    return found


def wait_for(true: Callable[[], object], timeout: float = 20, raises: bool = True) -> bool:
    """Call `true` repeatedly until it returns a true value, and return True. After `timeout` seconds raise
    AssertionError, or return False without `raises`."""
    deadline = time.monotonic() + timeout
    looked = time.monotonic()
    while not true():
        now = time.monotonic()
        if now > deadline:
            assert not raises, "still not so after %g s" % timeout
            return False
        time.sleep(min(max(0.01, now - looked), 0.1))  # the awaited process has at least half of the time
        looked = time.monotonic()
    return True
