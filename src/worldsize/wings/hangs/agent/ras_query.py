"""A query to NCCL's RAS, over TCP on this machine (`src/ras/client_support.cc`; `ncclras` sends the same).

The server sends nothing by itself: it answers each line, and a report ends with the connection. A client that closes
its sending half loses the answer. A query can end a job: up to 2.27.2 while communicators are made (NVIDIA/nccl#1669,
#1718), in later versions if ranks are missing (#1762, fixed in 2.29.2) or many communicators are made (#2346). So this
module never sends a query on its own account, and versions below `OLDEST` are never queried.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from worldsize.agent.posix.processes import variable
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

OLDEST = (2, 27, 3)
"""The first version that may be queried at all."""

_FIRST_WITH_JSON = (2, 28, 3)
_VARIABLE, _USUAL_PORT = "NCCL_RAS_ADDR", 28028
SECONDS = 10.0
MOST_BYTES = 16 * 2**20
_LONGEST_LINE = 4096
_MOST_MAPS = 16 * 2**20

_LEG_SECONDS = 2
"""Seconds that RAS waits for a process that does not answer, in each of two steps. Its own default is 5."""

_LIBRARY = re.compile(rb"(/[^\n]*/)libnccl\.so(\.[0-9.]{1,20})?$", re.MULTILINE)
_PACKAGE = re.compile(r"nvidia_nccl_cu\d{1,3}-(\d{1,3}\.\d{1,3}\.\d{1,3})(?:\.\w{1,20})?\.dist-info")


class RasReply(NamedTuple):
    """The reply of RAS. `text` is the unchanged report; "" if there is none. `refusal` is then the reason, in words
    that can follow "NCCL RAS was not heard:"."""

    text: str
    refusal: str = ""


def nccl_version(pid: int) -> str:
    """Return the version of the NCCL that the process `pid` has loaded, such as "2.27.5". "" if it has loaded none, or
    if the version cannot be found.

    A library of a system or of conda has the version in its file's name. The library of a wheel is `libnccl.so.2`,
    below the `site-packages` where the wheel has left its version.
    """
    for match in _LIBRARY.finditer(read_if_possible(f"/proc/{pid}/maps", _MOST_MAPS)):
        folder, number = os.fsdecode(match[1]), (match[2] or b"").decode().strip(".")
        if len(number.split(".")) > 2:
            return number
        found = _wheel_version(folder)
        if found:
            return found
    return ""


def _wheel_version(folder: str) -> str:
    packages, _, below = folder.partition("/nvidia/nccl/lib")
    try:
        names = os.listdir(packages) if below else []
    except OSError:
        names = []
    return next((match[1] for match in map(_PACKAGE.fullmatch, sorted(names)) if match), "")


def ras_port(pid: int) -> int:
    """Return the port of NCCL RAS in the process `pid`, from the environment that the process was started with, else
    the usual port."""
    return parse_digits(variable(pid, _VARIABLE).rpartition(":")[2]) or _USUAL_PORT


def ras_refusal(version: str) -> str:
    """Return the reason why the RAS of NCCL `version` is not queried. "" if it may be queried, once, as the last source
    of findings."""
    known = _version(version)
    if known is None:
        return "NCCL's version is unknown, and querying some versions ends the job"
    if known < OLDEST:
        return f"querying NCCL {version} can end the job"
    return ""


def _version(text: str) -> tuple[int, ...] | None:
    match = re.match(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\d])", text)
    return None if match is None else tuple(map(int, match.groups()))


def ask_ras(port: int, version: str, seconds: float = SECONDS, host: str = "127.0.0.1") -> RasReply:
    """Request one report of all communicators from NCCL RAS at `host` and `port`, within `seconds` altogether, of at
    most MOST_BYTES. Return the report or the reason why there is none. `version` is that of the ranks' NCCL; a version
    that must not be queried is not. The report is JSON if the version can write it. Raise nothing."""
    refusal = ras_refusal(version)
    if refusal:
        return RasReply("", refusal)
    end = time.monotonic() + seconds
    try:
        import socket

        with socket.create_connection((host, port), timeout=seconds) as connection:
            return _Conversation(connection, end).report((_version(version) or ()) >= _FIRST_WITH_JSON)
    except OSError as error:
        late = time.monotonic() >= end
        why = f"no complete answer within {seconds:g} s" if late else f"{error.strerror or error}"
        return RasReply("", f"{why} (port {port})")
    except ValueError as error:
        return RasReply("", f"{error} (port {port})")


def ask_ras_of(pids: Iterable[int], port: int = 0, seconds: float = SECONDS) -> RasReply:
    """Return the report of NCCL RAS from the first of the processes `pids` that has loaded an NCCL of a known version,
    or the reason why there is none. `port` 0 means the one in the process's environment. Raise nothing."""
    for pid in pids:
        version = nccl_version(pid)
        if version:
            return ask_ras(port or ras_port(pid), version, seconds)
    return RasReply("", "no rank on the first node has loaded an NCCL of a known version")


class _Conversation:
    """A connection to RAS, until the moment `end` (monotonic). Its methods raise OSError, and ValueError for an answer
    that RAS does not give."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection = connection
        self._end = end
        self._heard = b""

    def report(self, with_json: bool) -> RasReply:
        if not self._ask("CLIENT PROTOCOL 2").startswith("SERVER PROTOCOL "):
            raise ValueError("the listener is not NCCL's RAS")
        self._ask(f"TIMEOUT {_LEG_SECONDS}")
        if with_json and self._ask("SET FORMAT json") != "OK":
            with_json = False
        self._send("STATUS" if with_json else "VERBOSE STATUS")
        while self._hear():
            if len(self._heard) > MOST_BYTES:
                raise ValueError(f"the answer is longer than {MOST_BYTES >> 20} MiB")
        text = self._heard.decode("utf-8", "replace")
        if not text.strip():
            raise ValueError("the answer is empty")
        return RasReply(text)

    def _ask(self, line: str) -> str:
        """Send a line to NCCL RAS, and return the line that answers it."""
        self._send(line)
        while b"\n" not in self._heard:
            if len(self._heard) > _LONGEST_LINE or not self._hear():
                raise ValueError("the listener is not NCCL's RAS")
        answer, _, self._heard = self._heard.partition(b"\n")
        return answer.decode("utf-8", "replace").strip()

    def _send(self, line: str) -> None:
        self._connection.settimeout(self._left())
        self._connection.sendall(line.encode() + b"\n")

    def _hear(self) -> bool:
        """Wait for more data from NCCL RAS, and append it to the received data. Return False at the end of the
        connection."""
        self._connection.settimeout(self._left())
        more = self._connection.recv(65536)
        self._heard += more
        return bool(more)

    def _left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise OSError("time ran out")
        return left
