"""The question to NCCL's RAS, to a server that answers as RAS does, and to others."""

import contextlib
import os
import socket
import subprocess
import threading
import time

import pytest

from worldsize.wings.hangs.agent import ras_query
from worldsize.wings.hangs.agent.ras_query import ask_ras, nccl_version, ras_refusal

REPORT = b'{"communicators": []}\n' * 5000


@contextlib.contextmanager
def server(answer):
    """A server that hands its connection to `answer`; yields its port, and the lines that it was sent."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_serve, args=(listening, answer, heard), daemon=True)
        thread.start()
        yield listening.getsockname()[1], heard
        thread.join(5)


def _serve(listening, answer, heard):
    connection, _ = listening.accept()
    with connection, contextlib.suppress(OSError):
        connection.settimeout(5)
        answer(connection, heard)


def lines_of(connection, heard):
    with connection.makefile("rb") as file:
        for line in file:
            heard.append(line.decode().strip())
            yield heard[-1]


def ras(report=REPORT, with_json=True, drip=0.0):
    """RAS: it answers each line, and ends after the report; a client that ends first gets nothing."""

    def answer(connection, heard):
        for line in lines_of(connection, heard):
            if line.startswith("CLIENT PROTOCOL "):
                connection.sendall(b"SERVER PROTOCOL 2\n")
            elif line.startswith("TIMEOUT ") or (line == "SET FORMAT json" and with_json):
                connection.sendall(b"OK\n")
            elif line in ("STATUS", "VERBOSE STATUS"):
                step = 10 if drip else len(report) or 1
                for at in range(0, len(report), step):
                    connection.sendall(report[at : at + step])
                    time.sleep(drip)
                return
            else:
                connection.sendall(b"ERROR: Unknown command\n")

    return answer


def test_a_report_as_json():
    with server(ras()) as (port, heard):
        reply = ask_ras(port, "2.28.9")
    assert (reply.text, reply.refusal) == (REPORT.decode(), "")
    assert heard == ["CLIENT PROTOCOL 2", "TIMEOUT 2", "SET FORMAT json", "STATUS"]


def test_a_report_as_text():
    for version, with_json, asked in (("2.27.5", True, 3), ("2.29.7", False, 4)):
        with server(ras(b"Job summary\n", with_json)) as (port, heard):
            assert ask_ras(port, version).text == "Job summary\n"
        assert (len(heard), heard[-1]) == (asked, "VERBOSE STATUS")


@pytest.mark.parametrize("version", ["", "2", "2.18.3", "2.26.5", "2.27.2", "2.27.2+cuda12.2", "two", "2.27"])
def test_versions_that_are_never_asked(version):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        assert ask_ras(listening.getsockname()[1], version).refusal == ras_refusal(version) != ""
        with pytest.raises(OSError):
            listening.accept()


def test_versions_that_may_be_asked():
    assert [ras_refusal(version) for version in ("2.27.3", "2.27.5-1", "2.28.9+cuda13", "3.0.0")] == [""] * 4


def silence(connection, heard):
    list(lines_of(connection, heard))


def nonsense(connection, heard):
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    list(lines_of(connection, heard))


def no_line(connection, heard):
    connection.sendall(b"x" * 100_000)
    list(lines_of(connection, heard))


def gone(connection, heard):
    pass


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (silence, "no complete answer within 0.3 s"),
        (nonsense, "the listener is not NCCL's RAS"),
        (no_line, "the listener is not NCCL's RAS"),
        (gone, ""),
        (ras(b""), "the answer is empty"),
        (ras(drip=0.05), "no complete answer within 0.3 s"),
    ],
    ids=["silence", "nonsense", "no line", "gone", "empty", "drip"],
)
def test_what_does_not_answer_as_ras(answer, words):
    start = time.monotonic()
    with server(answer) as (port, _):
        reply = ask_ras(port, "2.28.9", seconds=0.3)
        assert time.monotonic() - start < 2
    assert reply.text == ""
    assert words in reply.refusal and reply.refusal.endswith("(port %d)" % port)


def test_too_much(monkeypatch):
    monkeypatch.setattr(ras_query, "MOST_BYTES", 10_000)
    with server(ras()) as (port, _):
        assert "longer than" in ask_ras(port, "2.28.9").refusal


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert "refused" in ask_ras(port, "2.28.9").refusal


def test_the_version_of_a_process(tmp_path, monkeypatch):
    maps = {"text": b""}
    monkeypatch.setattr(ras_query, "read_if_possible", lambda path, most: maps["text"])
    start = b"7f00-7f01 r-xp 00000000 08:01 7 "

    def version(*paths):
        maps["text"] = b"".join(start + os.fsencode(path) + b"\n" for path in paths)
        return nccl_version(1)

    wheel = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    assert version("/usr/lib/libc.so.6", "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5") == "2.21.5"
    assert version(wheel) == version("/usr/lib/libnccl.so.2") == version() == ""
    (tmp_path / "nvidia_nccl_cu12-2.27.3.dist-info").mkdir()
    assert version("/opt/libnccl.so.2", wheel) == "2.27.3"
    assert version("/usr/lib/libnccl-net.so.1.2.3") == ""


def test_a_process_without_nccl():
    """Not this process, into which another test may have loaded torch."""
    with subprocess.Popen(["sleep", "1000"]) as other:
        assert nccl_version(other.pid) == nccl_version(2**30) == ""
        other.kill()
