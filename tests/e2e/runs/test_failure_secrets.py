"""What is shown of a failure, and what records of it say, has no secrets in it."""

from __future__ import annotations

import json

from driver import Cli

NAMED, LOGIN = "zq81namedCANARY77", "hunter2hunter2"
SCRIPT = """\
import os, sys
if os.environ["RANK"] == "1":
    print("other postgres://u:%s@h/db" % ("hunter2" * 2), file=sys.stderr)
    sys.exit(0)
print("line", os.environ["MYSECT"], "postgres://u:%s@h/db" % ("hunter2" * 2))
raise ValueError("said %s and postgres://u:%s@h/db" % (os.environ["MYSECT"], ("hunter2" * 2)))
"""


def test_neither_named_secrets_nor_logins(cli: Cli) -> None:
    """Found by review: the message of the status was masked, and what stood below it was not."""
    cli.write("train.py", SCRIPT)
    cli.write(
        "job.yml",
        "command: python train.py\ncode: .\nsecrets: [MYSECT]\n"
        "distribution: {type: pytorch, process_count_per_instance: 2}\n",
    )
    cli.environ["MYSECT"] = NAMED
    failed = cli("run", "-q", "job.yml")
    run = cli.latest()
    shown = [failed.err, cli.ok("status", run).out, cli.ok("status", run, "-o", "json").out]
    for text in shown:
        assert NAMED not in text and LOGIN not in text, text
        assert "ValueError" in text and "said" in text
    failure = json.loads(shown[2])["failure"]
    assert failure["exception"]["message"] == "said *** and postgres://u:***@h/db"
    assert any("line *** postgres://u:***@h/db" in line for line in failure["last_lines"])
    for name in ("result.json", "attempt-0/exit/node-0000.json"):
        kept = cli.read(run, *name.split("/"))
        assert "said" in kept and NAMED not in kept and LOGIN not in kept
    assert NAMED in cli.read(run, "attempt-0", "logs", "rank-00000.log"), "the log is the rank's own"
