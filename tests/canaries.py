"""Secrets planted wherever a user may put one, and a look for them wherever they do not belong."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAMED = "EXPERIMENT"
"""A variable that `secrets:` names, since nothing in its name tells."""

WAIT = 'touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done; test -n "$EXPERIMENT" -a -n "$HF_TOKEN"'
SAID = " --api-key CanaryOption1 --password=CanaryOption2 --url https://anna:CanaryOption3@host/x"


def job(world: str = "2x1", **more: Any) -> dict[str, Any]:
    """With a canary of its own at each place. It waits for `outputs/go`, and then fails if it was not given them."""
    nodes, _, each = world.partition("x")
    return {
        "command": "f() { %s; }; f%s" % (WAIT, SAID),
        "environment_variables": {
            "HF_TOKEN": "CanaryVariable1",
            "DATA": "https://anna:CanaryVariable2@host/data",
            "HEADER": "Authorization: Bearer CanaryVariable3",
            "PLAIN": "1",
        },
        "secrets": [NAMED],
        "inputs": {"api_key": "CanaryInput1", "where": "s3://anna:CanaryInput2@host/x"},
        "tags": {"token": "CanaryTag1"},
        "distribution": {"type": "pytorch", "process_count_per_instance": int(each)},
        "resources": {"instance_count": int(nodes)},
        **more,
    }


ENVIRON = {NAMED: "CanaryNamed1"}
PREFIX = b"Canary"


def in_files(*roots: str, but: Sequence[str] = ()) -> list[str]:
    """The files below that hold a canary, and which; not those whose name is one of `but`."""
    found = []
    for root in roots:
        for path in Path(root).rglob("*"):
            if path.name in but or path.is_symlink():
                continue
            try:
                data = path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b""
            except OSError:
                continue  # it has gone meanwhile
            found += ["%s: %s" % (path, word) for word in _words(data)]
    return found


def in_processes(mark: str) -> list[str]:
    """Processes that hold a canary in their words or their environment, ranks and what they have started left out: of
    those whose words or environment have `mark`."""
    found = []
    for pid in (name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
        try:
            words, environ = Path("/proc", pid, "cmdline").read_bytes(), Path("/proc", pid, "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() not in words + environ or b"WORLDSIZE_RANK=" in environ:
            continue
        shown = words.replace(b"\0", b" ").decode(errors="replace")[:100]
        found += ["%s %s: %s" % (pid, shown, word) for word in _words(words + b"\0" + environ)]
    return found


def _words(data: bytes) -> Iterator[str]:
    at = data.find(PREFIX)
    while at >= 0:
        end = at
        while end < len(data) and data[end : end + 1].isalnum():
            end += 1
        yield data[at:end].decode()
        at = data.find(PREFIX, end)
