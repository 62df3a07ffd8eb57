"""A node's part in the watch: what it tells the head, and the programs that it starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.agent.control.link import MAX_LINE
from worldsize.agent.posix import processes
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent import watch_node
from worldsize.wings.hangs.agent.watch_node import PATIENCE, SECONDS, WatchedNode, start_program

ECHO = "import sys; print(sys.stdin.read(), end='')"


class Ranks:
    """Ranks none of which runs."""

    def __init__(self) -> None:
        self.spared: set[int] = set()

    def running(self) -> Mapping[int, Any]:
        return {}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A node whose collector the test ends, and what it has told."""
    told: list[dict[str, Any]] = []
    ranks: Any = Ranks()
    signs: Any = None
    monkeypatch.setattr(watch_node, "start_program", lambda program, order, output: 4711)
    watched = WatchedNode(RunPaths(str(tmp_path), 0), 1, ranks, signs, told.append)

    def end(text: str) -> None:
        Path(watched._output).write_text(text)
        ranks.spared.discard(4711)
        watched.finish_collecting(0.0)

    return SimpleNamespace(watched=watched, told=told, ranks=ranks, end=end)


@pytest.mark.parametrize("has_memfd", [True, False])
def test_a_program_gets_its_order_whatever_python_this_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_memfd: bool
) -> None:
    """A Python that was built for an older C library, as conda's, has no `os.memfd_create`."""
    if not has_memfd:
        monkeypatch.delattr(os, "memfd_create")
    output = tmp_path / "out"
    pid = start_program(ECHO, "an order", str(output))
    assert os.waitpid(pid, 0)[1] == 0 and output.read_text() == "an order"


@pytest.mark.parametrize("frame", [["f", "/t.py", 1, ""], ["main", "/home/\u5f20\u4e09/\u8bad\u7ec3/train.py", 1, ""]])
def test_an_answer_fits_into_a_line_of_the_control_channel(node: SimpleNamespace, frame: list[object]) -> None:
    """A longer line would end the connection, and the run: quotes and backslashes take four times their room in it."""
    node.watched.start_collecting(1, True)
    line = json.dumps([frame] * 200)
    node.end("".join(f"{line}\n" for _ in range(2_000_000 // len(line))))
    (answer,) = node.told
    sent = json.dumps({"kind": "told", "topic": "hangs", "text": json.dumps(answer)}, separators=(",", ":"))
    assert MAX_LINE / 2 < len(sent) < MAX_LINE - 1000
    assert answer["text"].split("\n")[:-1] == [line] * answer["text"].count("\n"), "lines are whole"


def test_a_line_that_is_too_long_leaves_room_for_others(node: SimpleNamespace) -> None:
    node.watched.start_collecting(1, True)
    node.end("[1]\n" + "x" * MAX_LINE + "\n[2]\n[3]")
    assert node.told == [{"sampled": 1, "text": "[1]\n[2]\n[3]\n"}]


def test_a_program_that_waits_for_a_file_server_is_left_behind(
    node: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has told before counts; and the next look has a program of its own."""
    ended: list[int] = []
    monkeypatch.setattr(processes, "signal_process", lambda pid, number: ended.append(pid))
    node.watched.start_collecting(1, True)
    Path(node.watched._output).write_text("[1]\n[2")
    node.watched.finish_collecting(100.0)
    node.watched.finish_collecting(100.0 + SECONDS)
    assert node.told == [] and ended == [] and node.watched.is_collecting
    node.watched.finish_collecting(100.0 + SECONDS + PATIENCE)
    assert node.told == [{"sampled": 1, "text": "[1]\n[2\n"}] and ended == [4711]
    assert node.ranks.spared == {4711}, "it lives still, and nobody waits for it"
    node.watched.start_collecting(2, False)
    assert node.watched.is_collecting
