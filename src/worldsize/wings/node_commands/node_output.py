"""The output of a command on many nodes, folded for people and complete for programs, and the nodes that failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worldsize.cli.output import report_message, show_error_log, show_json, show_log
from worldsize.compute.capabilities import NodeEvent
from worldsize.logs.fold import LineFolder
from worldsize.logs.merged_log import Printer
from worldsize.logs.text import cut_long, format_ranges, last_state, split_lines, to_text, without_colours
from worldsize.plan.hostlist import fold_hostlist

WINDOW = 2.0
"""Seconds for which a line is held to see whether other nodes print it, too."""

_LOST = 1


class NodeResults:
    """The progress and the results of a command on its nodes. `hosts` contains the nodes' own host names. Subclasses
    process the nodes' output."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = nodes
        self.hosts: dict[int, str] = {}
        self.codes: dict[int, int] = {}
        self.lost: dict[int, str] = {}

    def take(self, heard: Sequence[NodeEvent]) -> None:
        """Process new events of the command's nodes: record hosts, exit codes and losses, and show notes. Call this
        without events, too, so that held output is shown in time."""
        for said in heard:
            if said.kind == "note":
                report_message(without_colours(to_text(said.data)))
            elif said.kind == "up":
                self.hosts[said.node] = to_text(said.data)
            elif said.kind == "end":
                self.codes[said.node] = said.code
            elif said.kind == "lost":
                self.lost[said.node] = to_text(said.data)

    def finish(self) -> None:
        """Show the remaining output of the command: no more events will come."""

    @property
    def code(self) -> int:
        """The highest exit code of all nodes. A node without an exit code counts as 1."""
        return max(self.codes.get(node, _LOST) for node in self.nodes)

    def progress(self) -> str:
        """Return the progress of the command in words that follow "it ", such as "has not begun" or "runs on nodes
        0-3"."""
        if not self.hosts:
            return "has not begun"
        return "runs on " + self._names([node for node in self.nodes if node not in self.codes])

    def failures(self) -> list[str]:
        """Return lines of text about the nodes on which the command failed: one for each exit code but 0, and one for
        each reason why nodes were lost."""
        lines = [
            f"exit code {code} on {self._names([node for node in self.nodes if self.codes.get(node) == code])}"
            for code in sorted(set(self.codes.values()) - {0})
        ]
        lost: dict[str, list[int]] = {}
        for node in self.nodes if self.hosts else ():
            if node not in self.codes:
                lost.setdefault(self.lost.get(node, ""), []).append(node)
        said = (f"{self._names(nodes)}: {why}" if why else self._names(nodes) for why, nodes in lost.items())
        return [*lines, *(f"lost before it ended: {each}" for each in said)]

    def _names(self, nodes: Sequence[int]) -> str:
        hosts = fold_hostlist(self.hosts[node] for node in nodes if node in self.hosts)
        text = "node{} {}".format("" if len(nodes) == 1 else "s", format_ranges(list(nodes)))
        return f"{text} ({hosts})" if hosts else text


class FoldedResults(NodeResults):
    """The results for people: stdout is shown on stdout and stderr on stderr. A line that several nodes print is shown
    once, with the nodes before it."""

    def __init__(self, nodes: Sequence[int], mode: str | None, now: Callable[[], float]) -> None:
        super().__init__(nodes)
        mode = mode or ("same" if len(nodes) > 1 else "off")
        self._now = now
        self._streams = {"out": _FoldedStream(nodes, mode, show_log), "err": _FoldedStream(nodes, mode, show_error_log)}

    def take(self, heard: Sequence[NodeEvent]) -> None:
        for said in heard:
            super().take([said])
            if said.kind in self._streams:
                self._streams[said.kind].push(said.node, said.data, self._now())
            elif said.kind == "end":
                for stream in self._streams.values():
                    stream.close(said.node, self._now())
        for stream in self._streams.values():
            stream.show(self._now())

    def finish(self) -> None:
        for stream in self._streams.values():
            stream.finish(self._now())


class _FoldedStream:
    """An output stream (stdout or stderr) of the command on all nodes, whose equal lines are folded."""

    def __init__(self, nodes: Sequence[int], mode: str, write: Callable[[str], object]) -> None:
        self._folder = LineFolder(nodes, mode, WINDOW)
        self._printer = Printer({node: str(node) for node in nodes}, len(nodes), write)
        self._partial = dict.fromkeys(nodes, b"")

    def push(self, node: int, data: bytes, now: float) -> None:
        """Add output of the command on a node. A line is passed on to the folder of lines when its newline has come; a
        very long line is passed on in pieces."""
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


class CollectedResults(NodeResults):
    """The results for programs: at the end, JSON with {node, host, code, stdout, stderr} of each node. `code` is null
    for a node that was lost, and `host` for one that never started."""

    def __init__(self, nodes: Sequence[int]) -> None:
        super().__init__(nodes)
        self._data = {(node, kind): bytearray() for node in nodes for kind in ("out", "err")}

    def take(self, heard: Sequence[NodeEvent]) -> None:
        super().take(heard)
        for said in heard:
            if said.kind in ("out", "err"):
                self._data[said.node, said.kind] += said.data

    def finish(self) -> None:
        show_json(
            [
                {
                    "node": node,
                    "host": self.hosts.get(node),
                    "code": self.codes.get(node),
                    "stdout": self._data[node, "out"].decode(errors="replace"),
                    "stderr": self._data[node, "err"].decode(errors="replace"),
                }
                for node in self.nodes
            ]
        )
