"""run --debugpy: a rank that waits, and a debugger that attaches."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from driver import Cli, heard

SCRIPT = """\
import os
value = 41
value += 1
print("rank", os.environ["RANK"], "value", value, "waits" if os.environ.get("WORLDSIZE_DEBUGGER") else "goes on")
"""


class Debugger:
    """A client of the Debug Adapter Protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._stream = self._socket.makefile("rwb")
        self._sent = 0

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, command: str, **arguments: Any) -> None:
        self._sent += 1
        message = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        data = json.dumps(message).encode()
        self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._stream.flush()

    def until(self, kind: str, name: str) -> Any:
        """What the next event, or response, of this name says."""
        while True:
            length = 0
            while (line := self._stream.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert line, "the debugger is gone"
            message = json.loads(self._stream.read(length))
            if message["type"] == kind and message[{"event": "event", "response": "command"}[kind]] == name:
                assert message.get("success", True), message
                return message.get("body")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_debugger_stops_one_rank_at_a_breakpoint(cli: Cli) -> None:
    venv = os.path.join(cli.root, "venv")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([os.path.join(venv, "bin", "pip"), "install", "-q", "debugpy"], check=True)
    environ = {"VIRTUAL_ENV": venv, "PATH": os.path.join(venv, "bin") + os.pathsep + cli.environ["PATH"]}
    script = cli.write("train.py", SCRIPT)
    process = cli.start("run", "-w", "1x2", "--debugpy", "1", "--", "python", "train.py", **environ)
    said = heard(process.stderr, "justMyCode") + "  }"
    found = re.search(r"rank 1 on \S+ waits for a debugger at 127\.0\.0\.1:(\d+)", said)
    assert found is not None, said
    entry = json.loads(said[said.index("{") :].replace("\n  ", "\n"))
    assert entry["pathMappings"][0]["localRoot"] == cli.project
    debugger = Debugger(int(found[1]))
    debugger.send("initialize", adapterID="test", pathFormat="path")
    debugger.until("response", "initialize")
    debugger.send("attach", **{name: entry[name] for name in ("connect", "pathMappings", "justMyCode")})
    debugger.until("event", "initialized")
    debugger.send("setBreakpoints", source={"path": script}, breakpoints=[{"line": 4}])
    debugger.until("response", "setBreakpoints")
    debugger.send("configurationDone")
    thread = debugger.until("event", "stopped")["threadId"]
    debugger.send("stackTrace", threadId=thread)
    frame = debugger.until("response", "stackTrace")["stackFrames"][0]
    assert (frame["line"], frame["source"]["path"]) == (4, script)
    debugger.send("evaluate", expression="value", frameId=frame["id"])
    assert debugger.until("response", "evaluate")["result"] == "42"
    debugger.send("continue", threadId=thread)
    out, err = process.communicate(timeout=120)
    debugger.close()
    assert process.returncode == 0, err
    assert sorted(out.decode().splitlines()) == ["0:0: rank 0 value 42 goes on", "0:1: rank 1 value 42 goes on"]
    assert b", but " not in err, "no warning of what the debugger has left"


def test_a_python_without_debugpy_says_so(cli: Cli) -> None:
    cli.write("train.py", SCRIPT)

    cli.write("site/debugpy.py", "raise ImportError\n")
    environ = {"PYTHONPATH": os.pathsep.join([os.path.join(cli.project, "site"), cli.environ["PYTHONPATH"]])}
    result = cli("run", "-w", "1x2", "--debugpy", "1", "--", "python", "train.py", timeout=300, **environ)
    assert result.code == 2 and "has no debugpy" in result.out and "pip install debugpy" in result.out, result


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-w", "1x2", "--debugpy", "2"], "there is no rank 2"),
        (["--debugpy", "0", "--count", "2"], "one run is debugged at a time"),
        (["--debugpy", "0", "--virtual-gpus", "1"], "a network of their own"),
        (["--debugpy", "one"], "is not a number"),
    ],
)
def test_what_has_no_rank_to_attach_to(cli: Cli, words: list[str], says: str) -> None:
    result = cli("run", *words, "--", "true", timeout=120)
    assert result.code == 2 and says in result.err, result
