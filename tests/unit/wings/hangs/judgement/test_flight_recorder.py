"""Dumps of the Flight Recorder: what is read of them, and what is not readable."""

import json
import os
import pickle

import pytest
from recorded_dumps import CREATED, FRAMES, call, dump, recorded, waiting

from worldsize.wings.hangs.judgement.recorder import flight_recorder
from worldsize.wings.hangs.judgement.recorder.flight_recorder import read_dump, read_dump_file


def fault_of(value):
    found = read_dump(pickle.dumps(value, 2), 0)
    assert not found.entries
    return found.fault


@pytest.mark.parametrize("protocol", [2, 5])
def test_an_entry_tells_the_call(protocol):
    found = dump(3, [call(), waiting("broadcast", 8, group=("1", "undefined"))], protocol=protocol)
    assert (found.rank, found.whole, found.fault) == (3, True, "")
    first, second = found.entries
    assert (first.group, first.group_name, first.backend, first.op, first.seq) == (
        "0",
        "default_pg",
        "gloo",
        "all_reduce",
        1,
    )
    assert (first.sizes, first.dtypes, first.state, first.retired) == (((4,),), ("Float",), "scheduled", True)
    assert (first.created, first.frames) == (CREATED, FRAMES)
    assert (second.group, second.op, second.retired) == ("1", "broadcast", False)


def test_json_says_the_same():
    calls = [call(), waiting("all_gather")]
    found = read_dump(json.dumps(recorded(calls)).encode(), 0)
    assert found == dump(0, calls)


def test_overwritten_entries_are_known_to_be():
    assert not dump(0, [call(seq=9)], lost=8).whole
    assert dump(0, []).whole


def test_members_of_groups():
    config = {"0": {"ranks": "[0, 1,2]"}, "1": {"ranks": "[]"}, "2": {"ranks": "[x]"}, "3": {}, "4": "no"}
    assert dump(0, [], config=config).members == {"0": (0, 1, 2)}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"entries": {}},
        {"entries": [1]},
        {"entries": [{}]},
        {"entries": [{"process_group": ("0", "x")}]},
        {"entries": [{"process_group": "0", "collective_seq_id": 1}]},
        {"entries": [{"process_group": ("0", "x"), "collective_seq_id": "1", "p2p_seq_id": None}]},
    ],
)
def test_what_is_no_dump(value):
    assert fault_of(value)
    assert read_dump(json.dumps(value).encode(), 0).fault or not isinstance(value, dict)


def test_fields_of_other_types_are_left_out():
    entry = recorded([call()])["entries"][0]
    odd = {key: [[{}]] for key in entry}
    odd.update(process_group=(7, None), collective_seq_id=3, time_created_ns=-5, frames=[None, {"line": "x"}])
    found = read_dump(pickle.dumps({"entries": [odd], "pg_config": 7}, 2), 0)
    (kept,) = found.entries
    assert (kept.group, kept.group_name, kept.seq, kept.op, kept.created) == ("7", "", 3, "", 0.0)
    assert kept.frames == (("", 0, ""),)


def test_texts_are_fit_for_a_terminal():
    found = dump(0, [call("all\x1b[31m_reduce" + "x" * 1000)])
    assert "\x1b" not in found.entries[0].op
    assert len(found.entries[0].op) <= 300


def test_a_value_that_contains_itself_ends():
    entry = recorded([call()])["entries"][0]
    entry["input_sizes"].append(entry["input_sizes"])
    entry["frames"].append(entry)
    assert len(read_dump(pickle.dumps({"entries": [entry]}, 2), 0).entries) == 1


def test_counts_are_limited(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_MOST_ENTRIES", 3)
    assert "too many" in dump(0, [call()] * 4).fault


def test_hostile_json():
    assert read_dump(b"{" + b'"a":[' * 200_000, 0).fault
    assert read_dump(b'{"entries": [' + b"9" * 5000 + b"]}", 0).fault


def test_files(tmp_path):
    path = str(tmp_path / "rank_0")
    assert read_dump_file(path, 0).fault == "is missing"
    (tmp_path / "rank_0").write_bytes(pickle.dumps(recorded([call()]), 2))
    assert read_dump_file(path, 0, 5.0).taken == 5.0
    os.truncate(path, 100)
    assert read_dump_file(path, 0).fault == "is damaged"
    assert read_dump_file(str(tmp_path), 0).fault.startswith("cannot be read")
    os.mkfifo(str(tmp_path / "pipe"))
    assert read_dump_file(str(tmp_path / "pipe"), 0).fault.startswith("cannot be read")


def test_a_file_that_is_mostly_a_hole(tmp_path):
    with open(tmp_path / "rank_0", "wb") as file:
        file.truncate(2**40)
    assert read_dump_file(str(tmp_path / "rank_0"), 0).fault == "is longer than 64 MiB"
