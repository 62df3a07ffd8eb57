"""Tests of the search for the best configuration by trials, on any compute: in parallel, each on one node, or on all
nodes."""

from __future__ import annotations

import csv
import json

from worldsize_conformance.place import Place

TRIAL = (
    "size=$(tr -dc 0-9 < set.json); test $size != 30 || exit 3; echo $WORLD_SIZE > outputs/world-$RANK; "
    "until test -e outputs/world-0 && test -e outputs/world-1; do sleep 0.05; done; "
    "for step in 1 2 3 4 5 6 7 8 9; do test $RANK != 0 || echo speed=$size; sleep 0.2; done"
)


def test_the_best_one_is_left_in_outputs(place: Place) -> None:
    place.require("array")
    place.write("set.json", '{"size": 1}')
    search = {"config": "set.json", "metric": "speed", "search": {"size": [10, 30, 20]}, "nodes": 1}
    place.job(TRIAL, "2x2", code=".", autotune=search)
    result = place("run", "job.yml", timeout=place.target.patience + 30)
    assert result.code == 0, result
    run = place.latest()
    assert json.loads(place.read_output(run, "set.json")) == {"size": 20}
    rows = list(csv.reader(place.read_output(run, "trials.csv").splitlines()))
    assert [row[:4] for row in rows[1:]] == [
        ["1", "10", "10", "measured"],
        ["2", "30", "", "failed"],
        ["3", "20", "20", "measured"],
    ]
    assert "exited with code 3" in rows[2][5]
    for rank in range(2):
        assert place.read_output(run + "_2", "world-%d" % rank) == "2\n"


ON_ALL_NODES = (
    "size=$(tr -dc 0-9 < set.json); test $size = 1 || exec python3 -c 'raise MemoryError()'; "
    "touch $(dirname $PWD)/outputs/up-$RANK; until test -e outputs/up-0 -a -e outputs/up-1; do sleep 0.05; done; "
    "test $RANK != 0 || echo speed=$size; exec sleep 600"
)


def test_a_trial_of_all_nodes_is_ended_or_left_out_on_each(place: Place) -> None:
    """Check that a trial that is left out starts no rank on any node, and that every node ends at once and records the
    reason."""
    place.require("array")
    place.write("set.json", "{}")
    search = {"config": "set.json", "metric": "speed", "reports": 1, "search": {"micro_batch": [1, 2, 4]}}
    place.job(ON_ALL_NODES, "2x1", code=".", autotune=search)
    result = place("run", "job.yml", timeout=place.target.patience + 30)
    assert result.code == 0, result
    run = place.latest()
    rows = list(csv.reader(place.read_output(run, "trials.csv").splitlines()))
    assert [row[3] for row in rows[1:]] == ["measured", "failed", "left out"], rows
    assert all(float(row[4]) < 20 for row in rows[1:]), rows
    told = [json.loads(place.read(run + "_2", "attempt-0", "exit", "node-%04d.json" % node)) for node in (0, 1)]
    assert [(each["ranks"], each["stop"], each["failure"]["reason"]) for each in told] == [
        ([], "failure", "LEFT_OUT")
    ] * 2
