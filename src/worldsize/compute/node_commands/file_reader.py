"""What one node tells of a command in files (`agent.node_programs.run_command.FileTransport`), read while it grows."""

from __future__ import annotations

import os

from worldsize.agent.node_programs import run_command
from worldsize.common.atomic_files import open_regular_file
from worldsize.compute.capabilities import NodeEvent
from worldsize.compute.node_commands.by_process import parse_event

_CHUNK = 1 << 20
_SHORTEST, _LONGEST = 0.05, 0.5
_COUNTED = 1.0
_MARK = run_command.MARK.encode()


class NodeFileReader:
    """One node's files, from their beginning; segments that are read to their end are removed.

    up       the node has begun
    ended    it has told its end
    lost     why no end is to be expected; whoever judges that sets it
    silence  seconds in which the file could be read and held nothing new, as far as they were noticed
    """

    def __init__(self, directory: str, node: int) -> None:
        self.node = node
        self.up = self.ended = False
        self.lost = ""
        self.silence = 0.0
        self._directory = directory
        self._segment = self._offset = 0
        self._rest = b""
        self._read_at: float | None = None
        self._due = 0.0
        self._pause = _SHORTEST

    @property
    def is_over(self) -> bool:
        return self.ended or bool(self.lost)

    def read_events(self, now: float) -> list[NodeEvent]:
        """What is new; less often asked where little was. `now`: monotonic."""
        if self.is_over or now < self._due:
            return []
        data = self._read(now)
        self._pause = _SHORTEST if data else min(1.5 * self._pause, _LONGEST)
        self._due = now + self._pause
        *lines, self._rest = (self._rest + data).split(b"\n")
        said = []
        for line in lines:
            words = line.split(b" ")
            if words[0] == _MARK and words[2:3] == [b"next"]:
                self._open_segment(int(words[3]))
                break
            heard = None if words[2:3] == [b"beat"] else parse_event(line)
            if heard is not None:
                said.append(heard)
                self.up = True
                self.ended = self.ended or heard.kind == "end"
        return said

    def _read(self, now: float) -> bytes:
        """What could be read of what is not read yet. Where a file system shows a file's new size before its bytes,
        there are zeros, which no line has: they are read again."""
        passed = 0.0 if self._read_at is None else min(now - self._read_at, _COUNTED)
        self._read_at = now
        try:
            with open(open_regular_file(self._path()), "rb") as file:
                file.seek(self._offset)
                data = file.read(_CHUNK)
        except FileNotFoundError:
            data = b""
        except OSError:
            return b""
        data = data.partition(b"\0")[0]
        self._offset += len(data)
        self.silence = 0.0 if data else self.silence + passed
        return data

    def _open_segment(self, segment: int) -> None:
        try:
            os.unlink(self._path())
        except OSError:
            pass  # the node stops telling when too many are left
        self._segment, self._offset, self._rest = segment, 0, b""
        self._due = 0.0

    def _path(self) -> str:
        return os.path.join(self._directory, run_command.segment_name(self.node, self._segment))
