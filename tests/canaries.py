"""Secrets planted wherever a user may put one, and a look for them wherever they do not belong."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAMED = "EXPERIMENT"
"""A variable that `secrets:` names, since nothing in its name tells."""

PASSWORD = "WORLDSIZE_HPCPACK_PASSWORD"
SECRETS = "secrets.json"
"""The one file that may hold some, until the run has ended."""

_WAIT = (
    "touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done; "
    'test -n "$EXPERIMENT" -a -n "$HF_TOKEN" -a x"$CONNECTED" = x"of-$EXPERIMENT-x"'
)


class Canaries:
    """Words that are found nowhere else, not even in another test's runs: `word` and what stands at each place."""

    def __init__(self) -> None:
        self.word = "Canary" + os.urandom(3).hex()
        self.environ = {NAMED: self("Named"), PASSWORD: self("Password"), "HF_TOKEN": self("Variable1")}
        """Of the command line."""

    def __call__(self, place: str) -> str:
        return self.word + place

    def said(self) -> str:
        """Words of a command."""
        values = self("Option1"), self("Option2"), self("Option3"), self("Option4"), self("Option5")
        return (
            """ --api-key %s --password=%s --url https://anna:%s@host/x -H 'X-Api-Key: %s' '{"secret": "%s"}'"""
            % values
        )

    def job(self, world: str = "2x1", **more: Any) -> dict[str, Any]:
        """With a canary of its own at each place. It waits for `outputs/go`, and then fails if its ranks were not given
        them."""
        nodes, _, each = world.partition("x")
        return {
            "command": "f() { %s; }; f%s ${{inputs.api_key}}" % (_WAIT, self.said()),
            "display_name": "train --token %s %s %s" % (self("Name"), self("Variable1"), self("Variable4")),
            "description": "with " + self("Variable1"),
            "environment_variables": {
                "HF_TOKEN": self("Variable1"),
                "DATA": "https://anna:%s@host/data" % self("Variable2"),
                "HEADER": "Authorization: Bearer %s" % self("Variable3"),
                "PLAIN": "x-%s-y" % self("Variable1"),
            },
            "secrets": [NAMED],
            "environment": {
                "variables": {
                    "CONNECTED": "of-$EXPERIMENT-x",
                    "OTHER": "$CONNECTED",
                    "DB_PASSWORD": self("Variable4"),
                    "AZUREML_CONN": "of-$EXPERIMENT-y",
                }
            },
            "inputs": {"api_key": self("Input1"), "where": "s3://anna:%s@host/x" % self("Input2")},
            "tags": {"token": self("Tag1")},
            "distribution": {"type": "pytorch", "process_count_per_instance": int(each)},
            "resources": {"instance_count": int(nodes)},
            **more,
        }

    def in_files(self, *roots: str, but: Sequence[str] = ()) -> list[str]:
        """The files below that hold one, and which; not those whose path ends with one of `but`."""
        found = []
        for root in roots:
            for path in Path(root).rglob("*"):
                if str(path).endswith(tuple(but)) or path.is_symlink():
                    continue
                try:
                    data = path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b""
                except OSError:
                    continue  # it has removed in the meantime
                found += ["%s: %s" % (path, word) for word in self._words(data)]
        return found

    def in_processes(self) -> list[str]:
        """Processes of this machine that hold one in their words or their environment; ranks, what they have started
        and what has started them in our place left out."""
        found = []
        for pid in (name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
            try:
                environ = Path("/proc", pid, "environ").read_bytes()  # before the words: an ended process has none
                words = Path("/proc", pid, "cmdline").read_bytes()
            except OSError:
                continue
            if b"WORLDSIZE_RANK=" not in environ and b"WORLDSIZE_RUN_ID=" not in environ:
                shown = words.replace(b"\0", b" ").decode(errors="replace")[:100]
                found += ["%s %s: %s" % (pid, shown, word) for word in self._words(words + b"\0" + environ)]
        return found

    def _words(self, data: bytes) -> Iterator[str]:
        prefix = self.word.encode()
        at = data.find(prefix)
        while at >= 0:
            end = at
            while end < len(data) and data[end : end + 1].isalnum():
                end += 1
            yield data[at:end].decode()
            at = data.find(prefix, end)
