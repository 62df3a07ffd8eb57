"""The gzip members of a packed environment, and the tar file that they hold; several threads inflate them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from worldsize.wings.provisioning.agent.pack_format import HEADER, member_content, member_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Read = Callable[[int], bytes]
    """The next bytes, at most so many and at least one; b"" at the end. May wait. Raises OSError,
    PreparationStopped."""

_AHEAD = 16


def contents(read: Read, digested: Any, pool: ThreadPoolExecutor | None) -> Iterator[bytes]:
    """What the gzip members hold, in order."""
    left: deque[Future[bytes]] = deque()
    while True:
        whole = _next_member(read)
        if not whole:
            break
        digested.update(whole)
        if pool is None:
            yield member_content(whole, bounded=True)
            continue
        left.append(pool.submit(member_content, whole))
        if len(left) >= _AHEAD:
            yield left.popleft().result()
    while left:
        yield left.popleft().result()


def _next_member(read: Read) -> bytes:
    head = _read_bytes(read, HEADER)
    if not head:
        return b""
    length = member_length(head) if len(head) == HEADER else None
    if length is None:
        raise ValueError("a part of it is no gzip member of ours")
    body = _read_bytes(read, length - HEADER)
    if len(body) < length - HEADER:
        raise ValueError("it is cut off")
    return head + body


def _read_bytes(read: Read, count: int) -> bytes:
    parts = []
    while count:
        data = read(count)
        if not data:
            break
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


class TarStream:
    """The tar file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes:
        """Exactly so many bytes. ValueError where it ends before."""
        parts: list[bytes] = []
        while count:
            if not self._piece:
                piece = next(self._pieces, b"")
                if not piece:
                    raise ValueError("it is cut off")
                self._piece = memoryview(piece)
            parts.append(bytes(self._piece[:count]))
            self._piece = self._piece[count:]
            count -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drain(self) -> None:
        for _ in self._pieces:
            pass
