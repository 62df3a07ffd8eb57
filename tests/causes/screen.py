"""The screen that `worldsize why` shows of a case, as it stands in the documentation."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from typing import Any, NamedTuple

from driver import Cli

from causes.case import Case
from causes.conditions import ROOT
from causes.sequences import run_to_its_end

_GENERAL = (
    (r"\d{8}-\d{6}-[a-z0-9]{6}", "RUN"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "…"),
    (r"\bsince \d\d:\d\d:\d\d\b", "since …"),
    (r"(?<=\[)(?:[0-9a-f.:]+\.\d+|::1|::ffff:[0-9.]+)\]:\d+", "…]:…"),
    (r"\b(pid|pid\(s\)|process|Pid) (\d{3,})", r"\1 …"),
    (r"0x[0-9a-f]{6,}", "0x…"),
    (r"\btorch_\d+_\d+_\d+", "torch_…"),
    (r"\[([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+", r"[\1…"),
    (r"\bport: \d+", "port: …"),
    (r"(?<=no sign of life for )\d+(?= s)", "…"),
    (r"\btotal-vm:.*?oom_score_adj:\d+", "…"),
    (r'\{grpc_message:("[^"]*"), grpc_status:(\d+)\}', r"{grpc_status:\2, grpc_message:\1}"),
    (
        r"pair\.cc:\d+\] (?:Read error|Connection closed by peer)\b.*?(?=…)(?:…\]:….*?(?=…))?",
        "pair.cc] Connection closed by peer",
    ),
)

_BY_CHANCE = ("  cascade ", "note: which of nodes ")
"""How the lines begin that one run of a case shows, and another one does not."""


class Screen(NamedTuple):
    """`data`: as `-o json` prints it; `text`: for people, without what differs from run to run."""

    data: dict[str, Any]
    text: str

    @property
    def certain(self) -> str:
        """The text without what else ranks say, since how many of them still say it before they are ended is chance;
        and without the note that two moments are too near to each other to be put in order."""
        return certain_part(self.text)


def certain_part(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_BY_CHANCE))


def take_screen(cli: Cli, case: Case) -> Screen:
    """Run the job of the case, which has to fail, and ask why."""
    nodes, _, each = case.world.partition("x")
    job = {
        "command": case.command,
        "code": ".",
        "resources": {"instance_count": int(nodes)},
        "distribution": {"type": "pytorch", "process_count_per_instance": int(each)},
        "grace": 1,
        **({"environment": os.path.join(ROOT, case.environment)} if case.environment else {}),
        **case.keys,
    }
    cli.write("train.py", case.code)
    cli.write("job.yml", json.dumps(job))
    for name, text in case.files.items():
        cli.write(name, text)
    run = (case.sequence or run_to_its_end)(cli)
    words = ("why", *([run] if run else []))
    return Screen(cli.json(*words), without_variable_parts(cli.ok(*words).out, cli))


def without_variable_parts(text: str, cli: Cli) -> str:
    """The screen without ids, times, process numbers, addresses, and the machine's own names and paths."""
    text = text.replace(cli.root + os.sep, "").replace(cli.root, "~").replace(ROOT + os.sep, "")
    for folder in dict.fromkeys((sys.prefix, sys.base_prefix)):
        text = text.replace(folder, "PYTHON")
    for pattern, instead in _GENERAL:
        text = re.sub(pattern, instead, text)
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", text).rstrip() + "\n"
