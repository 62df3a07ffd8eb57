"""A real head's agent in a process of its own, and nodes that are no more than their side of the control channel.

The head is `python -m worldsize.agent RUN_DIR --node-rank 0`, with one rank that sleeps; it listens at an address of
the loopback, over TCP, as on a cluster. All members share one selector of this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness import pss

import worldsize
from worldsize.agent.control.channel import HELLO, MemberChannel
from worldsize.agent.control.rendezvous import OPEN_FILES, read_rendezvous
from worldsize.agent.outcome.verdict import Verdict
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason

ADDRESS = "127.0.0.2"
"""Of the loopback, and not the one for which a head opens a socket's file in place of a port."""

SILENCE = 27.0
"""Seconds; a beat is a ninth of it."""

PATIENCE = 60.0
SOFT_LIMIT = 256
"""Open files that the head may have at first."""

_CALM = 0.12
_FEW, _TIMES = 64, 3
"""For so many members and fewer, each act is measured so many times in a round."""


class Head:
    """The head's agent of a run of `nodes` nodes."""

    def __init__(self, root: str, nodes: int, environ: dict[str, str]) -> None:
        self.paths = RunPaths(root)
        for directory in self.paths.directories():
            os.makedirs(directory)
        layout = node_major_layout(nodes, 1)
        plan = Plan("bench", "bench", "local", time.time(), 0, layout, ("sleep", "600"), {}, silence=SILENCE)
        with open(self.paths.plan, "w", encoding="utf-8") as file:
            file.write(plan.to_json())
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "worldsize.agent", root, "--node-rank", "0", "--address", ADDRESS],
            env={**environ, "PYTHONPATH": source_path()},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, hard)),
        )
        self.rendezvous = wait_until(lambda: read_rendezvous(self.paths), "the head publishes its address")
        self.pid: int = wait_until(lambda: agent_pid(self.paths), "the head's agent starts")

    def open_files(self) -> int:
        """How many files the head may have open now."""
        return resource.prlimit(self.pid, resource.RLIMIT_NOFILE)[0]

    def state(self) -> str:
        """How the head has ended, or that it runs; and what it has written."""
        with open(self.paths.events(0), encoding="utf-8") as file:
            return "exit code %s, %s" % (self._process.poll(), file.read())

    def cpu(self) -> float:
        """CPU seconds up to now."""
        return cpu_seconds(self.pid)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


class Members:
    """Nodes 1 to `count` of a run. `heard`: by the kind of a message, the nodes that have got one."""

    def __init__(self, head: Head, count: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count + OPEN_FILES, hard)), hard))
        self._head = head
        self._selector = selectors.DefaultSelector()
        endpoint, token = head.rendezvous.endpoint(head.paths), head.rendezvous.token
        self._channels = {
            node_rank: MemberChannel(endpoint, token, _Labelled(self._selector, node_rank))  # type: ignore[arg-type]
            for node_rank in range(1, count + 1)
        }
        self.heard: dict[str, set[int]] = {}
        self.start_bytes = 0

    @property
    def ranks(self) -> list[int]:
        return list(self._channels)

    def turn(self, seconds: float = 0.0) -> None:
        """Read what has arrived."""
        for key, _ in self._selector.select(seconds):
            node_rank, read = key.data
            read()
            for message in self._channels[node_rank].take():
                self._note(node_rank, message)

    def _note(self, node_rank: int, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "start" and not self.start_bytes:
            self.start_bytes = len(json.dumps(message, separators=(",", ":")))
        if kind == "gone" and node_rank not in self.heard.get("end", ()):
            raise RuntimeError("the head has hung up on node %d" % node_rank)
        self.heard.setdefault(kind, set()).add(node_rank)

    def join(self) -> None:
        for node_rank, channel in self._channels.items():
            while not channel.connect(1.0):
                self.turn()
            channel.send(HELLO, node_rank=node_rank, host=["node%04d" % node_rank, 64, "", []])
            self.turn()

    def wait(self, kind: str, ranks: Iterable[int]) -> None:
        """Go on until each of these nodes has got a message of this kind."""
        wanted, heard = set(ranks), self.heard.setdefault(kind, set())
        deadline = time.monotonic() + PATIENCE
        while not heard >= wanted:
            self.turn(0.05)
            if time.monotonic() > deadline:
                counts = {each: len(found) for each, found in self.heard.items()}
                troubles = {channel.trouble for channel in self._channels.values()}
                what = "%s: not all of %d nodes have it, but %s; connections: %s; the head: %s"
                raise RuntimeError(what % (kind, len(wanted), counts, troubles, self._head.state()))

    def send(self, ranks: Iterable[int], kind: str, spread: float = 0.0, **fields: object) -> None:
        """Send one message of each of these nodes, one after the other within `spread` seconds."""
        ranks, began = list(ranks), time.monotonic()
        for index, node_rank in enumerate(ranks):
            self._channels[node_rank].send(kind, **fields)
            while time.monotonic() < began + spread * index / len(ranks):
                self.turn(0.0005)
            if index % 16 == 0:
                self.turn()

    def rest(self) -> float:
        """Go on until the head has had nothing to do for a moment; its CPU seconds up to then."""
        now = before = self._head.cpu()
        at = time.monotonic()
        while time.monotonic() - at < _CALM:
            self.turn(0.01)
            now = self._head.cpu()
            if now - before > 0.0005:
                before, at = now, time.monotonic()
        return now

    def lose(self, ranks: Iterable[int]) -> None:
        """End these nodes, in one go."""
        for node_rank in ranks:
            self._channels.pop(node_rank).close()

    def close(self) -> None:
        self.lose(self.ranks)
        self._selector.close()


class _Labelled:
    """The selector that all members share, as one of them sees it: what is read is this node's."""

    def __init__(self, selector: selectors.BaseSelector, node_rank: int) -> None:
        self._selector = selector
        self._node_rank = node_rank
        self.unregister = selector.unregister

    def register(self, file: Any, events: int, read: Callable[[], None]) -> None:
        self._selector.register(file, events, (self._node_rank, read))

    def modify(self, file: Any, events: int, read: Callable[[], None]) -> None:
        self._selector.modify(file, events, (self._node_rank, read))


Samples = dict[str, list[float]]


def measure(root: str, count: int, environ: dict[str, str]) -> dict[str, float]:
    """All that is measured with `count` members: seconds until something is so, and CPU seconds of the head; of few
    members the medians of several heads, since what they cost is short."""
    samples: Samples = {}
    for number in range(_TIMES if count <= _FEW else 1):
        _end_together("%s-a%d" % (root, number), count, environ, samples, with_heartbeat=number == 0)
        _lose_half("%s-b%d" % (root, number), count, environ, samples)
    return {name: statistics.median(values) for name, values in samples.items()}


def _end_together(root: str, count: int, environ: dict[str, str], samples: Samples, with_heartbeat: bool) -> None:
    """Members join, live on for a heartbeat, hear of a failure, and end."""
    with _joined(root, count, environ, samples) as (head, members):
        everybody = members.ranks
        _note(samples, "pss", pss(head.pid))
        _note(samples, "open files", head.open_files())
        _note(samples, "bytes of start", members.start_bytes)
        if with_heartbeat:
            members.heard.pop("ping", None)
            before = members.rest()
            members.wait("ping", everybody)
            members.send(everybody, "ping", SILENCE / 9 - 1.0)
            _note(samples, "heartbeat cpu", members.rest() - before)
        failure = Failure(Reason.EXIT_CODE, "rank 1 ended with code 7", 1, 1, 7, time.time())
        with _timed(members, samples, "verdict"):
            members.send(everybody[:1], "verdict", **Verdict("failure", failure).fields())
            members.wait("verdict", everybody)
        with _timed(members, samples, "done"):
            members.send(everybody[1:], "done")
        members.send(everybody[:1], "done")
        members.wait("end", everybody)


def _lose_half(root: str, count: int, environ: dict[str, str], samples: Samples) -> None:
    """Half of the members are gone at once."""
    with _joined(root, count, environ, samples) as (_, members):
        half, rest = members.ranks[::2], members.ranks[1::2]
        with _timed(members, samples, "loss"):
            members.lose(half)
            members.wait("verdict", rest)
        members.send(rest, "done")
        members.wait("end", rest)


@contextlib.contextmanager
def _joined(root: str, count: int, environ: dict[str, str], samples: Samples) -> Iterator[tuple[Head, Members]]:
    head = Head(root, count + 1, environ)
    members = Members(head, count)
    try:
        with _timed(members, samples, "join"):
            members.join()
            members.wait("start", members.ranks)
        yield head, members
    finally:
        members.close()
        head.end()


@contextlib.contextmanager
def _timed(members: Members, samples: Samples, name: str) -> Iterator[None]:
    cpu, began = members.rest(), time.monotonic()
    yield
    _note(samples, name + " seconds", time.monotonic() - began)
    _note(samples, name + " cpu", members.rest() - cpu)


def _note(samples: Samples, name: str, value: float) -> None:
    samples.setdefault(name, []).append(value)


def source_path() -> str:
    """Where this process has worldsize from, so that the head and its members are of one kind."""
    return os.path.dirname(os.path.dirname(os.path.abspath(worldsize.__file__)))


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise RuntimeError("not within %g s: %s" % (PATIENCE, what))
        time.sleep(0.01)
    return found


def agent_pid(paths: RunPaths, node_rank: int = 0) -> int:
    """The process of a node's agent; 0 as long as it has not started."""
    with contextlib.suppress(FileNotFoundError), open(paths.events(node_rank), encoding="utf-8") as file:
        return next((int(each["pid"]) for each in map(json.loads, file) if each["event"] == "agent_started"), 0)
    return 0


def cpu_seconds(pid: int) -> float:
    """Exact to nanoseconds, unlike /proc/PID/stat: the kernel's number of another process's CPU clock."""
    return time.clock_gettime(~pid << 3 | 2)
