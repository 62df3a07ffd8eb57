"""The best configuration by trials, whatever they run on: beside each other, each on one of the run's nodes."""

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
    place.write("set.json", '{"size": 1}')
    search = {"config": "set.json", "metric": "speed", "search": {"size": [10, 30, 20]}, "nodes": 1}
    place.job(TRIAL, "2x2", code=".", autotune=search)
    result = place("run", "job.yml", timeout=place.target.patience + 30)
    assert result.code == 0, result
    run = place.latest()
    assert json.loads(place.out(run, "set.json")) == {"size": 20}
    rows = list(csv.reader(place.out(run, "trials.csv").splitlines()))
    assert [row[:4] for row in rows[1:]] == [
        ["1", "10", "10", "measured"],
        ["2", "30", "", "failed"],
        ["3", "20", "20", "measured"],
    ]
    assert "exited with code 3" in rows[2][5]
    for rank in range(2):
        assert place.read(run, "attempt-0", "trials", "003", "outputs", "world-%d" % rank) == "2\n"
