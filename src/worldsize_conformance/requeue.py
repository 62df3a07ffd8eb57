"""Tests of `requeue`: the same submission starts once more, as its next attempt, if the compute has a queue for it."""

from __future__ import annotations

import json
import os
import stat

from worldsize_conformance.driver import wait_for
from worldsize_conformance.place import Place


def can_requeue(place: Place) -> bool:
    return "requeue" in place.compute().capabilities


def test_what_failed_is_started_again(place: Place) -> None:
    place.job("touch outputs/up-$RANK; sleep 1; test -e outputs/go || exit 3", "2x1")
    run = place.submit("job.yml")
    before = place.wait_for_end(run)
    assert (before["state"], before["exit_code"]) == ("FAILED", 3)
    result = place("requeue", run)
    if not can_requeue(place):
        assert result.code == 2 and "`worldsize rerun %s`" % run in result.err
        assert place.status(run)["state"] == "FAILED"
        return
    assert (result.code, result.err) == (0, "%s is back in the queue, as attempt 1\n" % run)
    status = place.status(run)
    assert status["exit_code"] is None or os.path.exists(place.path(run, "attempt-1", "exit", "node-0001.json")), status
    assert place.wait_for_end(run)["state"] == "FAILED"
    assert os.path.exists(place.path(run, "attempt-1", "exit", "node-0001.json"))
    with open(place.path(run, "outputs", "go"), "w"):
        pass
    place.ok("requeue", run)
    after = place.wait_for_end(run)
    assert (after["state"], after["exit_code"], after["reason"]) == ("SUCCEEDED", 0, None), after
    for attempt in (0, 1):
        kept = json.loads(place.read(run, "attempt-%d" % attempt, "result.json"))
        assert kept["summary"]["state"] == "FAILED"
    assert os.path.exists(place.path(run, "attempt-2", "exit", "node-0001.json"))
    again = place("requeue", run)
    assert again.code == 2 and "%s is SUCCEEDED" % run in again.err


def test_what_was_cancelled_or_still_runs_too(place: Place) -> None:
    if not can_requeue(place):
        return
    place.job("touch outputs/up-$RANK-$(ls -d $WORLDSIZE_RUN_DIR/attempt-* | wc -l); sleep 120", "2x1")
    run = place.submit("job.yml")
    wait_for(lambda: place.has_outputs(run, "up-0-1", "up-1-1"), place.target.patience)
    place.ok("requeue", run)
    wait_for(lambda: place.has_outputs(run, "up-0-2", "up-1-2"), place.target.patience)
    wait_for(lambda: place.status(run)["state"] == "RUNNING", place.target.patience)
    place.ok("cancel", run, "--now")
    assert place.wait_for_end(run)["state"] == "CANCELLED"
    place.ok("requeue", run)
    wait_for(lambda: place.has_outputs(run, "up-0-3", "up-1-3"), place.target.patience)
    assert place.status(run)["state"] in ("STARTING", "RUNNING")
    place.ok("cancel", run, "--now")
    assert place.wait_for_end(run)["state"] == "CANCELLED"


def test_what_the_compute_has_forgotten_stays_as_it_was(place: Place) -> None:
    if not can_requeue(place):
        return
    place.job("exit 3")
    run = place.submit("job.yml")
    before = place.wait_for_end(run)
    place.forget(run)
    result = place("requeue", run)
    assert result.code in (1, 2) and "`worldsize rerun %s`" % run in result.err, result
    assert all(place.status(run)[key] == before[key] for key in ("state", "exit_code", "reason", "message", "ended"))
    assert sorted(name for name in os.listdir(place.path(run)) if name.startswith("attempt-")) == ["attempt-0"]


def test_nobody_else_may_write_to_any_attempt(place: Place) -> None:
    """Check that no other user can write to the directories of any attempt. Found by review: they were created with the
    user's own umask, except for those of the first attempt."""
    place.job("touch outputs/up-$RANK; test -e outputs/go || exit 3", "2x1", share="group", setup=["echo begun"])
    former = os.umask(0)
    try:
        run = place.submit("job.yml")
        assert place.wait_for_end(run)["state"] == "FAILED"
        if can_requeue(place):
            place.ok("requeue", run)
            assert place.wait_for_end(run)["state"] == "FAILED"
            assert os.path.exists(place.path(run, "attempt-1", "exit", "node-0001.json"))
    finally:
        os.umask(former)
    found = {}
    for folder, names, files in os.walk(place.path(run)):
        for path in (os.path.join(folder, name) for name in [*names, *files]):
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, place.path(run))] = stat.S_IMODE(status.st_mode)
    assert "attempt-0/logs/rank-00001.log" in found
    by_ranks = {path: found.pop(path) for path in list(found) if path.startswith("outputs/")}
    assert {path: oct(mode) for path, mode in found.items() if mode & 0o027} == {}
    assert {path: oct(mode) for path, mode in by_ranks.items() if mode & 0o022} == {}
