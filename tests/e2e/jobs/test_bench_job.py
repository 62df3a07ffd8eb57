"""`worldsize bench` of a job of one's own, from the words to the files, on virtual nodes."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE, Cli, wait_for

EXAMPLES = os.path.join(os.path.dirname(SOURCE), "examples")
FILES = [".worldsize-result", "report.html", "result.csv", "result.json", "scaling.png", "scaling.svg"]
RATE = "echo rate $((100 * WORLD_SIZE))"


def result_of(cli: Cli, name: str = "found") -> dict[str, Any]:
    result: dict[str, Any] = json.loads(Path(cli.project, name, "result.json").read_text())
    return result


def worlds_of(result: dict[str, Any]) -> list[tuple[int, int]]:
    return [tuple(each["world"].values()) for each in result["measurements"]]  # type: ignore[misc]


def bench(cli: Cli, worlds: str, command: str, *words: str, code: int = 0) -> str:
    said = cli("bench", "-w", worlds, "--to", "found", *words, "--", "sh", "-c", command, timeout=120)
    assert said.code == code, said
    return said.out + said.err


@pytest.mark.training
@pytest.mark.timeout(300)
def test_a_job_at_three_worlds_ends_with_table_picture_and_page(cli: Cli) -> None:
    pytest.importorskip("torch")
    job = os.path.join(EXAMPLES, "digits", "job.yml")
    said = cli("bench", job, "-w", "1x1,1x2,2x2", "--set", "inputs.epochs=1", "--to", "found", timeout=280)
    assert said.code == 0, said
    assert sorted(os.listdir(os.path.join(cli.project, "found"))) == FILES
    result = result_of(cli)
    assert worlds_of(result) == [(1, 1), (1, 2), (2, 2)]
    assert all(each["rate"] > 0 and each["seconds"] > 0 for each in result["measurements"])
    assert "speed-up" in said.out and "efficiency" in said.out and "Hardware" in said.out and "Software" in said.out
    assert re.search(r"^(Use \dx\d: |Nothing can be recommended: )", said.out, re.MULTILINE), said.out
    for each in result["measurements"]:
        assert re.search(r"^ *%dx%d .*\d" % tuple(each["world"].values()), said.out, re.MULTILINE), said.out
    assert dict(result["software"])["framework"].startswith("torch ")
    again = cli("bench", job, "-w", "1x1,1x2,2x2", "--set", "inputs.epochs=1", "--to", "found", "-o", "json")
    assert again.code == 0
    assert again.err.count("measured already") == 3
    assert result_of(cli) == result
    shown = json.loads(again.out)
    assert [each["run"] for each in shown["measurements"]] == [each["run"] for each in result["measurements"]]


def test_a_number_in_the_output_is_the_rate_and_an_earlier_result_is_compared(cli: Cli) -> None:
    said = bench(cli, "1,2", RATE, "--pattern", r"rate (\d+)", "--unit", "images/s")
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [100.0, 200.0]
    assert "images/s" in said
    words = ("--pattern", r"rate (\d+)", "--unit", "images/s", "--against", "found", "--to", "other")
    said = bench(cli, "1,2", RATE, *words)
    assert "Against" in said


def test_a_world_that_fails_is_told_and_measured_again(cli: Cli) -> None:
    command = "[ $WORLD_SIZE = 1 ] || [ -e %s/mended ] || exit 3; %s" % (cli.project, RATE)
    said = bench(cli, "1,2,3", command, "--pattern", r"rate (\d+)", code=1)
    assert "1x2: failed: " in said and "1x3: failed: " in said
    assert [bool(each["failure"]) for each in result_of(cli)["measurements"]] == [False, True, True]
    Path(cli.project, "mended").touch()
    said = bench(cli, "1,2,3", command, "--pattern", r"rate (\d+)")
    assert said.count("measured already") == 1
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [100.0, 200.0, 300.0]


def test_other_settings_do_not_go_into_one_directory(cli: Cli) -> None:
    bench(cli, "1", RATE, "--pattern", r"rate (\d+)")
    before = result_of(cli)
    said = bench(cli, "1", RATE, "--pattern", r"rate (\d)", code=2)
    assert "other settings" in said
    assert result_of(cli) == before


def test_what_a_job_has_not_said_is_a_failure_of_its_world(cli: Cli) -> None:
    said = bench(cli, "1,2", "true", "--metric", "loss", code=1)
    assert "1x1: failed: --metric: the run has logged no value named 'loss' → it has logged: nothing" in said
    assert len(cli.json("list")) == 1


def test_a_value_that_each_rank_logs_is_multiplied(cli: Cli) -> None:
    cli.write("rate.py", "import worldsize\nfor step in range(12): worldsize.log(step=step, rate=50 + (step > 1))\n")
    words = ("--to", "found", "--metric", "rate", "--per-rank", "--unit", "images/s", "-o", "json")
    said = cli("bench", "rate.py", "-w", "1x2", *words, timeout=60)
    assert said.code == 0, said
    (found,) = json.loads(said.out)["measurements"]
    assert (found["rate"], len(found["rates"]), found["details"]["source"]) == (102.0, 11, "rate of rank 0, by log")


def test_a_run_that_takes_too_long_is_cancelled(cli: Cli) -> None:
    said = bench(cli, "1", "exec sleep 60", "--timeout", "1", code=1)
    assert "it did not end within 1.0 s" in said
    assert cli.json("list")[0]["state"] == "CANCELLED"


@pytest.mark.parametrize(
    ("number", "code", "state"), [(signal.SIGINT, 130, "CANCELLED"), (signal.SIGQUIT, 0, "RUNNING")]
)
def test_a_person_cancels_or_leaves_and_goes_on_later(cli: Cli, number: int, code: int, state: str) -> None:
    place = cli.project
    command = "touch up; while [ $WORLD_SIZE = 2 ] && [ ! -e %s/go ]; do sleep 0.05; done; %s" % (place, RATE)
    words = ["bench", "-w", "1,2", "--to", "found", "--pattern", r"rate (\d+)", "--", "sh", "-c", command]
    process = cli.start(*words)
    assert wait_for(lambda: len(cli.json("list")) == 2 and cli.json("list")[0]["state"] == "RUNNING", 60)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, (out, err)
    one, two = result_of(cli)["measurements"]
    assert one["rate"] == 100.0 and two["rate"] is None
    assert cli.json("list")[0]["state"] == state
    Path(place, "go").touch()
    said = cli(*words, timeout=60)
    assert said.code == 0, said
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [100.0, 200.0]
    assert len(cli.json("list")) == (3 if number == signal.SIGINT else 2)


def test_a_person_leaves_the_first_run(cli: Cli) -> None:
    command = "until [ -e %s/go ]; do sleep 0.05; done; %s" % (cli.project, RATE)
    process = cli.start("bench", "-w", "1,2", "--to", "found", "--pattern", r"rate (\d+)", "--", "sh", "-c", command)
    assert wait_for(lambda: cli.json("list") and cli.json("list")[0]["state"] == "RUNNING", 60)
    process.send_signal(signal.SIGQUIT)
    out, err = process.communicate(timeout=60)
    Path(cli.project, "go").touch()
    assert process.returncode == 0, (out, err)
    assert "continues" in err.decode() and "Traceback" not in err.decode()
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [None]
    bench(cli, "1,2", command, "--pattern", r"rate (\d+)")
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [100.0, 200.0]
    assert len(cli.json("list")) == 2


def test_a_job_file_that_has_changed_is_another_benchmark(cli: Cli) -> None:
    text = "command: echo rate ${{inputs.rate}}\ninputs: {rate: %d}\n"
    words = ("bench", "job.yml", "-w", "1", "--to", "found", "--pattern", r"rate (\d+)")
    cli.write("job.yml", text % 3)
    assert cli(*words, timeout=60).code == 0
    cli.write("job.yml", text % 4)
    said = cli(*words)
    assert said.code == 2 and "digest of the job" in said.err, said
    assert [each["rate"] for each in result_of(cli)["measurements"]] == [3.0]


def test_it_is_said_that_the_code_has_changed_and_results_beside_it_are_none(cli: Cli) -> None:
    words = ("bench", "train.py", "--to", "found", "--pattern", r"rate (\d+)", "-w")
    cli.write("train.py", "print('rate 3')\n")
    assert cli(*words, "1", timeout=60).code == 0
    said = cli(*words, "1,2", timeout=60)
    assert said.code == 0 and "the same code" not in said.out, said
    cli.write("train.py", "print('rate 4')\n")
    assert "did not all run the same code: 1x1, 1x2; 1x4." in cli(*words, "1,2,4").out
