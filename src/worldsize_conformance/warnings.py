"""Tests of warnings: a success is reported with what contradicts it, and with `strict: true` it counts as a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worldsize_conformance.place import Place

RAISES = "python3 -c 'raise ValueError(\"no such sample\")' | cat"
LEAVES = "sleep 300 & disown; true"


def run_to_end(place: Place, command: str, code: int, **keys: Any) -> dict[str, Any]:
    place.job(command, "2x1", **keys)
    return dict(place.status(place.run("job.yml", code=code)))


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        (RAISES, "uncaught-exception", "left an uncaught ValueError: no such sample, and ended with 0"),
        (LEAVES, "ended-leftover", "were still running; they were terminated: sleep 300"),
    ],
)
def test_what_speaks_against_a_success(place: Place, command: str, kind: str, text: str) -> None:
    status = run_to_end(place, command, 0)
    assert status["state"] == "SUCCEEDED"
    told = sorted(status["warnings"], key=lambda each: each["rank"])
    assert [(each["id"], each["rank"]) for each in told] == [(kind, 0), (kind, 1)]
    assert all(text in each["text"] for each in told)
    assert json.loads(place.read(status["id"], "result.json"))["warnings"] == status["warnings"]
    first = place.ok("status", status["id"]).out.splitlines()[0]
    assert "SUCCEEDED, but rank " in first and "(and 1 more)" in first


def test_strict(place: Place) -> None:
    status = run_to_end(place, RAISES, 1, strict=True)
    assert (status["state"], status["reason"], status["exit_code"]) == ("FAILED", "EXIT_CODE", 1)
    assert status["failure"]["exception"]["message"] == "no such sample" and status["warnings"] == []


def test_nothing_speaks_against_what_ends_well(place: Place) -> None:
    probe = 'python3 -c \'import subprocess, sys; subprocess.run([sys.executable, "-c", "1/0"])\''
    assert run_to_end(place, "%s; sleep 0 & wait; true | cat" % probe, 0)["warnings"] == []
