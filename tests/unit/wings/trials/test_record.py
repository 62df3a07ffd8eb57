"""What trials leave in their array's directory: records, configurations, the table and the best."""

from __future__ import annotations

import csv
import json
import os
import re
import threading
from pathlib import Path

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.plan.array import Array, element_root
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunState, Status
from worldsize.state.summary import summary_of
from worldsize.wings.trials.agent.record import (
    base_configuration,
    read_results,
    record_file,
    trial_record,
    write_configuration,
    write_outputs,
)
from worldsize.wings.trials.agent.search import FAILED, MEASURED

SEARCH = {"config": "conf/ds.json", "metric": "speed", "goal": "max", "patience": None, "reports": 3, "timeout": 60}


def array_in(tmp_path: Path, *sizes: int) -> tuple[str, Array]:
    root = str(tmp_path / "run")
    values = tuple({"a": size} for size in sizes)
    array = Array("run", "t", "local", 1.0, 1, 1, len(sizes), 1, values, SEARCH)
    for directory in (*RunPaths(root).common_directories(), RunPaths(root).code + "/conf"):
        os.makedirs(directory)
    for number in range(len(sizes)):
        os.makedirs(element_root(root, number) + "/code/conf")
    Path(root, "code", "conf", "ds.json").write_text('{"b": 7}')
    return root, array


def end(root: str, number: int, value: float) -> None:
    write_json(record_file(element_root(root, number)), trial_record(MEASURED, value, "", 1.0, 3.5))


def lose(root: str, array: Array, number: int, status: Status) -> None:
    summary = {**summary_of(array, (1, 1), status), "id": "run_%d" % number}
    write_json(RunPaths(element_root(root, number)).result, {"summary": summary, "message": "gone", "failure": None})


def test_what_a_trials_agent_could_not_record_is_told_by_its_result(tmp_path: Path) -> None:
    root, array = array_in(tmp_path, 1, 2, 3, 4)
    end(root, 0, 5.0)
    lose(root, array, 1, Status(RunState.LOST, None, 1, started=2.0, ended=4.0))
    lose(root, array, 2, Status(RunState.CANCELLED, "CANCELLED_BY_USER", 130))
    found = read_results(root, array)
    assert [(each.number, each.state, each.value, each.seconds) for each in found] == [
        (1, MEASURED, 5.0, 2.5),
        (2, FAILED, None, 2.0),
    ]
    assert found[1].why == "LOST: gone" and found[1].settings == {"a": 2}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "[]", '{"state": "measured"}', '{"state": 1, "value": 1, "seconds": 1, "why": "", "ended": 1}',
     '{"state": "measured", "value": 1e999, "seconds": 1, "why": "", "ended": 1}',
     '{"state": "measured", "value": NaN, "seconds": 1, "why": "", "ended": 1}',
     '{"state": "measured", "value": "1", "seconds": 1, "why": "", "ended": 1}'],
)  # fmt: skip
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    root, array = array_in(tmp_path, 1)
    Path(record_file(element_root(root, 0))).write_text(text)
    assert read_results(root, array) == []


def test_a_reason_of_any_characters_is_written(tmp_path: Path) -> None:
    """A rank's message comes from JSON, which may hold halves of pairs of surrogates."""
    root, array = array_in(tmp_path, 1)
    why = "EXIT_CODE: \ud83d \udc80 \x00 \u2028"
    write_json(record_file(element_root(root, 0)), trial_record(FAILED, None, why, 1.0, 2.0))
    write_outputs(root, array)
    assert "EXIT_CODE: \\ud83d \\udc80" in Path(root, "outputs", "trials.csv").read_text()


@pytest.mark.heavy
def test_a_configuration_that_is_nested_too_deep_is_an_error_of_its_own(tmp_path: Path) -> None:
    """What can be read just so cannot always be written."""
    root, array = array_in(tmp_path, 1)
    end(root, 0, 1.0)

    def is_written(depth: int) -> bool:
        Path(root, "code", "conf", "ds.json").write_text('{"b": %s}' % ("[" * depth + "]" * depth))
        try:
            write_outputs(root, array)
        except OSError as error:
            assert "nested too deep" in str(error)
            return False
        return True

    coarse = {depth: is_written(depth) for depth in range(800, 1101, 10)}
    for depth in range(800, 1100, 10):
        if coarse[depth] != coarse[depth + 10]:  # each depth, there where what happens changes
            for each in range(depth - 9, depth + 20):
                is_written(each)


def test_the_best_and_the_table_are_written_anew(tmp_path: Path) -> None:
    root, array = array_in(tmp_path, 1, 2, 3)
    best = Path(root, "outputs", "ds.json")
    write_outputs(root, array)
    assert not best.exists()
    for number, value, expected in ((0, 5.0, 1), (1, 9.0, 2), (2, 7.0, 2)):
        end(root, number, value)
        write_outputs(root, array)
        assert json.loads(best.read_text()) == {"b": 7, "a": expected}
    rows = list(csv.reader(Path(root, "outputs", "trials.csv").read_text().splitlines()))
    assert [row[:4] for row in rows[1:]] == [[str(n), str(n), v, MEASURED] for n, v in ((1, "5"), (2, "9"), (3, "7"))]


def test_who_ends_last_sees_all_however_many_write_at_once(tmp_path: Path) -> None:
    root, array = array_in(tmp_path, *range(12))

    def trial(number: int) -> None:
        end(root, number, float(number))
        write_outputs(root, array)

    threads = [threading.Thread(target=trial, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Path(root, "outputs", "trials.csv").read_text().splitlines()) == 13
    assert json.loads(Path(root, "outputs", "ds.json").read_text()) == {"b": 7, "a": 11}
    assert sorted(os.listdir(RunPaths(root).outputs)) == ["ds.json", "trials.csv"]


def test_a_trial_has_a_configuration_of_its_own_in_place_of_the_link(tmp_path: Path) -> None:
    root, _ = array_in(tmp_path, 1)
    shared, own = (RunPaths(each) for each in (root, element_root(root, 0)))
    os.link(shared.code + "/conf/ds.json", own.code + "/conf/ds.json")
    for _ in range(2):
        write_configuration(shared, own, {**SEARCH, "settings": {"a": 3}})
    with open(own.code + "/conf/ds.json") as file:
        assert json.load(file) == {"b": 7, "a": 3}
    with open(shared.code + "/conf/ds.json") as file:
        assert file.read() == '{"b": 7}'


def test_a_trials_configuration_is_written_within_its_code(tmp_path: Path) -> None:
    root, _ = array_in(tmp_path, 1)
    shared, own = (RunPaths(each) for each in (root, element_root(root, 0)))
    os.rmdir(own.code + "/conf")
    os.makedirs(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", own.code + "/conf")
    with pytest.raises(OSError, match=r"conf/ds\.json is not in the snapshot of the code: it leads outside"):
        write_configuration(shared, own, {**SEARCH, "settings": {"a": 3}})
    assert os.listdir(tmp_path / "elsewhere") == []


def test_the_configuration_is_read_from_the_snapshot_alone(tmp_path: Path) -> None:
    """Found by review: one behind another user's link was read where that led, and trials showed it to a group."""
    run = RunPaths(str(tmp_path / "run"))
    os.makedirs(run.code + "/conf")
    os.makedirs(tmp_path / "elsewhere")
    for path in (run.code + "/conf/real.json", str(tmp_path / "elsewhere" / "ds.json")):
        with open(path, "w") as file:
            file.write('{"a": 1}')
    os.symlink("real.json", run.code + "/conf/ours.json")
    os.symlink("real.json", run.code + "/conf/theirs.json")
    os.symlink(tmp_path / "elsewhere" / "ds.json", run.code + "/conf/away.json")
    os.symlink(tmp_path / "elsewhere", run.code + "/away")
    assert base_configuration(run, "conf/real.json") == base_configuration(run, "conf/ours.json") == {"a": 1}
    for name in ("conf/away.json", "away/ds.json"):
        with pytest.raises(OSError, match=re.escape(name) + " is not in the snapshot of the code: it leads outside"):
            base_configuration(run, name)
    with pytest.raises(OSError, match="there is no conf/none"):
        base_configuration(run, "conf/none.json")
    if os.geteuid() == 0:
        os.chown(run.code + "/conf/theirs.json", 61002, 61002, follow_symlinks=False)
        with pytest.raises(OSError, match="the link belongs to uid 61002"):
            base_configuration(run, "conf/theirs.json")
