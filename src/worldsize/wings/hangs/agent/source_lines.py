"""The source of the lines that main threads are at. A call into C has no frame, only the line that made it.

The files may be on a server that does not answer, which may be the reason why the ranks hang. So another process reads
them, and is abandoned if it takes too long.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.wings.hangs.judgement.stacks.collective_waits import user_frame_of
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks, ThreadStack

SECONDS = 2.0

_MOST_LINES, _MOST_BYTES, _MOST_CHARACTERS = 512, 4 << 20, 300
_PROGRAM = """\
import json, os, stat, sys
most, width, asked = json.load(sys.stdin)
for file, line in asked:
    text = ""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as opened:
            if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                text = opened.read(most).split(b"\\n")[line - 1].decode("utf-8", "replace").strip()[:width]
    except Exception:
        pass
    print(json.dumps(text), flush=True)
"""


def with_source_lines(found: Iterable[RankStacks], deadline: float) -> list[RankStacks]:
    """Return the ranks' stacks `found` with source text added: that of the innermost line of each main thread, and that
    of the innermost line of the user's own code. Text is missing if it cannot be read before `deadline` (monotonic) and
    within `SECONDS`. Raise nothing."""
    stacks = list(found)
    places = sorted({place for each in stacks for place in _places(each)})[:_MOST_LINES]
    texts = dict(zip(places, _lines(places, min(SECONDS, deadline - time.monotonic())))) if places else {}
    return [_with_texts(each, texts) for each in stacks]


def _places(stacks: RankStacks) -> list[tuple[str, int]]:
    thread = stacks.main_thread
    frames = _read_frames(thread) if thread is not None else ()
    return [(frame.file, frame.line) for frame in frames if os.path.isabs(frame.file) and frame.line > 0]


def _read_frames(thread: ThreadStack) -> list[Frame]:
    own = user_frame_of(thread.frames)
    return [frame for frame in thread.frames if frame is own or frame is thread.frames[0]]


def _lines(places: Sequence[tuple[str, int]], seconds: float) -> list[str]:
    """Return the source texts of the lines at `places` (file and line number), up to the last one that could be read
    within `seconds`."""
    if seconds <= 0:
        return []
    order = json.dumps([_MOST_BYTES, _MOST_CHARACTERS, places]).encode()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
    except OSError:
        return []
    try:
        output = process.communicate(order, timeout=seconds)[0]
    except subprocess.TimeoutExpired as late:
        process.kill()
        output = late.output or b""
    except OSError:
        output = b""
    return [_text(line) for line in output.split(b"\n")[:-1]]


def _text(line: bytes) -> str:
    try:
        value: Any = json.loads(line)
    except PARSE_ERRORS:
        return ""
    return value if isinstance(value, str) else ""


def _with_texts(stacks: RankStacks, texts: dict[tuple[str, int], str]) -> RankStacks:
    thread = stacks.main_thread
    if thread is None or not thread.frames:
        return stacks
    read = [id(each) for each in _read_frames(thread)]
    changed = thread._replace(
        frames=tuple(
            each._replace(text=texts.get((each.file, each.line), "")) if id(each) in read else each
            for each in thread.frames
        )
    )
    threads: Sequence[ThreadStack] = [changed if each is thread else each for each in stacks.threads]
    return stacks._replace(threads=tuple(threads))
