"""Times of lines, as agents note them and `logs` shows them."""

from __future__ import annotations

import json
import os
from datetime import datetime

from driver import Cli

WORDS = ("bash", "-c", "echo first; sleep 2.5; echo last")


def moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_times_of_a_run(cli: Cli) -> None:
    assert cli("run", "-q", "-w", "2x1", "--", *WORDS, timeout=180).code == 0
    run = cli.latest()
    rows = [json.loads(line) for line in cli.ok("logs", run, "--timestamps", "-o", "json").lines]
    assert [row["line"] for row in rows] == ["first", "first", "last", "last"]
    assert {tuple(row) for row in rows} == {("rank", "node", "time", "line")}
    times = [moment(row["time"]) for row in rows]
    ended = cli.status(run)["ended"]
    assert times == sorted(times) and times[3] - times[0] > 1.0 and times[3] < ended + 1.0
    assert cli.read(run, "attempt-0", "logs", "rank-00001.log") == "first\nlast\n"
    text = cli.ok("logs", run, "--timestamps", "--rank", "1").lines
    assert [line.split()[0] + line.split()[2] for line in text] == ["1:1:first", "1:1:last"]
    assert cli.ok("logs", run, "--since", rows[1]["time"]).lines[-1].endswith(": last")
    assert "last" in cli.ok("logs", run, "--since", "1h", "--raw").out
    for rank in range(2):
        os.unlink(cli.path(run, "attempt-0", "logs", "rank-%05d.times" % rank))
    for option in (["--timestamps"], ["--since", "1h"]):
        result = cli("logs", run, *option)
        assert result.code == 2 and "no times were recorded for the output of ranks 0,1 of %s" % run in result.err, (
            result
        )


def test_times_of_an_array_and_of_a_short_run(cli: Cli) -> None:
    assert cli("run", "-q", "--count", "2", "--", "echo", "done", timeout=180).code == 0
    array = cli.json("list", "-n", "1")[0]["id"]
    rows = [json.loads(line) for line in cli.ok("logs", array, "--timestamps", "-o", "json").lines]
    assert sorted(row["element"] for row in rows) == [0, 1] and all(row["time"] for row in rows)
    assert {line[:6] for line in cli.ok("logs", array, "--timestamps").lines} == {"0/0:0:", "1/0:0:"}
