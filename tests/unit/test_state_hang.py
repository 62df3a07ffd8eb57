"""hang.json: what is not as the head's agent writes it is no hang, whoever has written it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from worldsize.plan.run_paths import RunPaths
from worldsize.state.hang import read_hang, stuck_text, with_texts

SENTENCE = "rank 1 (node 0) has not entered all_reduce #288; 3 others wait there"
WRITTEN: dict[str, Any] = {
    "alive": False, "reason": "two looks were equal", "standing": "established", "kind": "H1", "ranks": [1],
    "nodes": [0], "call": "all_reduce", "sequence": 288, "waiting": [0, 2, 3], "since": 1000.5,
    "place": ["/code/train.py", 41, "load"], "witnesses": ["stacks", "recorder"], "missing": {"ras": "no answer"},
    "sentence": SENTENCE, "groups": ["rank 1: reads or writes in read", "ranks 0,2-3: wait in all_reduce"],
    "samples": [1, 2], "silent_since": 990.0, "judged_at": 1300.0,
}  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.events_dir)
    return paths


def judged(paths: RunPaths, **fields: Any) -> None:
    with open(paths.judged, "w") as file:
        json.dump({**WRITTEN, **fields}, file)


def told(paths: RunPaths, *events: tuple[str, Any]) -> None:
    with open(paths.events(0), "w") as file:
        file.writelines(json.dumps({"time": time, "event": kind}) + "\n" for kind, time in events)


def test_what_the_judge_writes_is_read(paths: RunPaths) -> None:
    judged(paths)
    found = read_hang(paths, 4)
    assert found is not None and found.resumed is None
    assert (found.standing, found.kind, found.ranks, found.since) == ("established", "H1", (1,), 1000.5)
    assert found.place == ("/code/train.py", 41, "load") and found.sentence == SENTENCE
    assert found.missing == (("ras", "no answer"),) and len(found.groups) == 2


def test_a_run_that_nobody_has_looked_at_or_that_works_has_none(paths: RunPaths) -> None:
    assert read_hang(paths, 4) is None
    judged(paths, alive=True)
    assert read_hang(paths, 4) is None


def test_where_nobody_knows_since_when_others_wait_it_is_since_the_silence(paths: RunPaths) -> None:
    judged(paths, since=None, place=None, kind=None, ranks=[], standing="unknown")
    found = read_hang(paths, 4)
    assert found is not None and (found.since, found.ranks) == (990.0, ())


@pytest.mark.parametrize(
    ("events", "resumed"),
    [
        ([("stuck", 1300.1)], None),
        ([("resumed", 900.0), ("stuck", 1300.1)], None),
        ([("stuck", 1300.1), ("resumed", 1400.0)], 1400.0),
        ([("stuck", 1300.1), ("stopping", 1350.0), ("resumed", 1400.0)], None),
        ([("stuck", 1300.1), ("resumed", "soon"), ("resumed", 1e300), ("resumed", None), ("resumed", True)], None),
    ],
)
def test_it_went_on_where_the_head_saw_so_later_and_before_the_end(
    paths: RunPaths, events: list[tuple[str, Any]], resumed: float | None
) -> None:
    judged(paths)
    told(paths, *events)
    found = read_hang(paths, 4)
    assert found is not None and found.resumed == resumed


@pytest.mark.parametrize(
    "fields",
    [
        {"alive": 0}, {"alive": None}, {"standing": "sure"}, {"standing": ["established"]}, {"kind": "H4"},
        {"kind": {}}, {"ranks": [4]}, {"ranks": [-1]}, {"ranks": [True]}, {"ranks": ["1"]}, {"ranks": "1"},
        {"ranks": [10**400]}, {"ranks": None}, {"since": "now"}, {"since": 10**400}, {"since": float("nan")},
        {"since": float("inf")}, {"since": -1}, {"since": True}, {"silent_since": None}, {"judged_at": 1e18},
        {"place": ["a", 1]}, {"place": ["a", "1", "f"]}, {"place": ["a", 10**400, "f"]}, {"place": 7},
        {"place": [["a"], 1, "f"]}, {"witnesses": "stacks"}, {"witnesses": [1]}, {"missing": []},
        {"missing": {"ras": None}}, {"groups": [["rank 1"]]}, {"groups": {}}, {"sentence": ""}, {"sentence": None},
    ],
)  # fmt: skip
def test_a_value_that_the_judge_does_not_write_is_no_hang(paths: RunPaths, fields: dict[str, Any]) -> None:
    judged(paths, **fields)
    assert read_hang(paths, 4) is None


UNUSED = {"reason", "nodes", "call", "sequence", "waiting", "samples"}


@pytest.mark.parametrize("key", sorted(set(WRITTEN) - UNUSED))
def test_a_key_that_is_missing_makes_it_none(paths: RunPaths, key: str) -> None:
    with open(paths.judged, "w") as file:
        json.dump({name: value for name, value in WRITTEN.items() if name != key}, file)
    assert read_hang(paths, 4) is None


def test_texts_drive_no_terminal_and_have_an_end(paths: RunPaths) -> None:
    judged(paths, sentence="rank 1\x1b[2J\nrank 2 \u202e" + "x" * 100_000, groups=["\ud800", "\x07"] * 10)
    found = read_hang(paths, 4)
    assert found is not None and found.sentence.startswith(r"rank 1\x1b[2J\nrank 2 \u202e")
    assert len(found.sentence) < 3000
    assert all(text.isprintable() for text in (found.sentence, *found.groups))


def test_a_file_that_is_huge_nested_or_no_file_is_no_hang(paths: RunPaths) -> None:
    for text in ("[" * 100_000, "", "null", "[]", "7", '"x"', '{"alive": false', "{}"):
        Path(paths.judged).write_text(text)
        assert read_hang(paths, 4) is None
    judged(paths, reason="x" * (5 << 20))
    assert read_hang(paths, 4) is None
    os.unlink(paths.judged)
    os.mkfifo(paths.judged)
    assert read_hang(paths, 4) is None
    os.unlink(paths.judged)
    os.mkdir(paths.judged)
    assert read_hang(paths, 4) is None


def test_any_bytes_raise_nothing(paths: RunPaths) -> None:
    chance = random.Random(20261130)
    whole = json.dumps(WRITTEN).encode()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        Path(paths.judged).write_bytes(bytes(damaged[: chance.randrange(len(damaged) + 1)]))
        found = read_hang(paths, 4)
        assert found is None or (found.sentence.isprintable() and all(0 <= rank < 4 for rank in found.ranks))


def test_every_text_can_be_masked(paths: RunPaths) -> None:
    judged(paths)
    found = read_hang(paths, 4)
    assert found is not None
    masked = with_texts(found, lambda text: "*")
    assert (masked.sentence, masked.place, masked.groups) == ("*", ("*", 41, "*"), ("*", "*"))
    assert masked.missing == (("ras", "*"),) and masked.ranks == found.ranks


def test_the_words_with_which_the_watch_ends_a_run() -> None:
    assert stuck_text(312.4, SENTENCE) == "no sign of life for 312 s: " + SENTENCE
