"""What a command says on many nodes: folded for people, whole for programs; who failed, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from worldsize.cli.output import report_message, show_error_log, show_log
from worldsize.compute.capabilities import NodeEvent
from worldsize.logs.fold import LineFolder
from worldsize.logs.merged_log import Printer
from worldsize.logs.text import cut_long, format_ranges, last_state, split_lines, to_text, without_colours
from worldsize.plan.hostlist import fold_hostlist

WINDOW = 2.0
"""Seconds that a line waits for the other nodes to say it too."""

_LOST = 1


class NodeOutput(Protocol):
    def take(self, said: NodeEvent) -> None: ...
    def show(self) -> None: ...
    def finish(self) -> None: ...


class NodeResults:
    """How far each node is. `hosts` is what a node calls itself."""

    def __init__(self, nodes: Sequence[int], output: NodeOutput) -> None:
        self.nodes = nodes
        self.hosts: dict[int, str] = {}
        self.codes: dict[int, int] = {}
        self.lost: dict[int, str] = {}
        self._output = output

    def take(self, heard: Iterable[NodeEvent]) -> None:
        for said in heard:
            if said.kind == "note":
                report_message(without_colours(to_text(said.data)))
                continue
            if said.kind == "up":
                self.hosts[said.node] = to_text(said.data)
            elif said.kind == "end":
                self.codes[said.node] = said.code
            elif said.kind == "lost":
                self.lost[said.node] = to_text(said.data)
            self._output.take(said)
        self._output.show()

    def finish(self) -> None:
        self._output.finish()

    @property
    def code(self) -> int:
        """The highest of all nodes'."""
        return max(self.codes.get(node, _LOST) for node in self.nodes)

    def progress(self) -> str:
        """How far it is, after "it "."""
        if not self.hosts:
            return "has not begun"
        return "runs on " + self._names([node for node in self.nodes if node not in self.codes])

    def failures(self) -> list[str]:
        """A line for each code but 0, and one for nodes that never told one."""
        lines = [
            f"exit code {code} on {self._names([node for node in self.nodes if self.codes.get(node) == code])}"
            for code in sorted(set(self.codes.values()) - {0})
        ]
        lost: dict[str, list[int]] = {}
        for node in self.nodes if self.hosts else ():
            if node not in self.codes:
                lost.setdefault(self.lost.get(node, ""), []).append(node)
        said = (f"{self._names(nodes)}: {why}" if why else self._names(nodes) for why, nodes in lost.items())
        return [*lines, *(f"lost before its end: {each}" for each in said)]

    def _names(self, nodes: Sequence[int]) -> str:
        hosts = fold_hostlist(self.hosts[node] for node in nodes if node in self.hosts)
        text = "node{} {}".format("" if len(nodes) == 1 else "s", format_ranges(list(nodes)))
        return f"{text} ({hosts})" if hosts else text


class FoldedOutput:
    """stdout on stdout, stderr on stderr; lines that several nodes say once, with the nodes before them."""

    def __init__(self, nodes: Sequence[int], mode: str | None, now: Callable[[], float]) -> None:
        mode = mode or ("same" if len(nodes) > 1 else "off")
        self._now = now
        self._streams = {"out": _FoldedStream(nodes, mode, show_log), "err": _FoldedStream(nodes, mode, show_error_log)}

    def take(self, said: NodeEvent) -> None:
        if said.kind in self._streams:
            self._streams[said.kind].push(said.node, said.data, self._now())
        elif said.kind == "end":
            for stream in self._streams.values():
                stream.close(said.node, self._now())

    def show(self) -> None:
        for stream in self._streams.values():
            stream.show(self._now())

    def finish(self) -> None:
        for stream in self._streams.values():
            stream.finish(self._now())


class _FoldedStream:
    """One stream of all nodes."""

    def __init__(self, nodes: Sequence[int], mode: str, write: Callable[[str], object]) -> None:
        self._folder = LineFolder(nodes, mode, WINDOW)
        self._printer = Printer({node: str(node) for node in nodes}, len(nodes), write)
        self._partial = dict.fromkeys(nodes, b"")

    def push(self, node: int, data: bytes, now: float) -> None:
        """A line is whole when its newline is there; of a very long one the pieces are given out."""
        block, newline, rest = (self._partial[node] + data).rpartition(b"\n")
        lines = split_lines(block) if newline else []
        pieces, self._partial[node] = cut_long(rest)
        self._folder.push_lines(node, [*lines, *pieces], now)

    def close(self, node: int, now: float) -> None:
        rest, self._partial[node] = last_state(self._partial[node]), b""
        if rest:
            self._folder.push_lines(node, [to_text(rest)], now)
        self._folder.close(node)

    def show(self, now: float) -> None:
        self._printer.show(self._folder.pop(now))

    def finish(self, now: float) -> None:
        for node in list(self._partial):
            self.close(node, now)
        self._printer.show(self._folder.pop(now, drain=True))


class CollectedOutput:
    """Everything, until the end."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._data = {node: {"out": bytearray(), "err": bytearray()} for node in nodes}

    def take(self, said: NodeEvent) -> None:
        if said.kind in ("out", "err"):
            self._data[said.node][said.kind] += said.data

    def show(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def rows(self, gathered: NodeResults) -> list[dict[str, Any]]:
        """{node, host, code, stdout, stderr}; `code` is None for a node that was lost, `host` where it never came."""
        return [
            {
                "node": node,
                "host": gathered.hosts.get(node),
                "code": gathered.codes.get(node),
                "stdout": said["out"].decode(errors="replace"),
                "stderr": said["err"].decode(errors="replace"),
            }
            for node, said in self._data.items()
        ]
