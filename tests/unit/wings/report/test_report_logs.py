"""The ends of logs in a run's page: whole lines, safe to show, bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_reports import FAILED, MADE, ReadPage, facts_of, record_run, write

from worldsize.wings.report.page import run_page
from worldsize.wings.report.sections import logs
from worldsize.wings.report.sections.logs import log_end, shown_ranks

TOKEN = "hf_abcdefghijklmnop1234"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    return str(tmp_path)


def test_the_last_lines(home: str) -> None:
    paths = record_run(home)
    write(paths.rank_log(0), "".join(f"line {number}\n" for number in range(1000)))
    end = log_end(facts_of(paths, log_lines=3), paths.rank_log(0), 1 << 20)
    assert end.text == "line 997\nline 998\nline 999" and end.left == len("".join(f"line {n}\n" for n in range(997)))
    assert log_end(facts_of(paths, log_lines=0), paths.rank_log(0), 1 << 20).text == ""
    assert log_end(facts_of(paths), paths.rank_log(0) + ".none", 1 << 20) == ("", 0)


def test_a_secret_is_never_cut_before_it_is_masked(home: str) -> None:
    paths = record_run(home, 1, 1)
    write(paths.rank_log(0), f"first\nthe token {TOKEN} ends\nlast line\n")
    facts = facts_of(paths)
    found = {log_end(facts, paths.rank_log(0), most).text for most in range(20, 54)}
    assert found == {"last line", "the token *** ends\nlast line"}


def test_one_endless_line(home: str) -> None:
    paths = record_run(home, 1, 1)
    write(paths.rank_log(0), TOKEN * 100_000)
    assert log_end(facts_of(paths), paths.rank_log(0), 1 << 20).text == ""
    write(paths.rank_log(0), "ä" * 70_000 + "\nend\n")
    shown = log_end(facts_of(paths), paths.rank_log(0), 1 << 20).text
    assert shown == "ä" * 4000 + "… (66000 more characters)\nend"


def test_colours_and_what_was_overwritten_are_gone(home: str) -> None:
    paths = record_run(home, 1, 1)
    write(paths.rank_log(0), " 1%\r 50%\r\x1b[32m100%\x1b[0m\n\x1b]0;title\x07plain\x00\n")
    assert log_end(facts_of(paths), paths.rank_log(0), 1 << 20).text == "100%\nplain"


def test_ranks_that_failed_come_first_and_there_are_bounds(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_RANKS", 3)
    paths = record_run(home, 2, 4, codes={5: 1, 2: 1})
    facts = facts_of(paths, FAILED)
    assert shown_ranks(facts) == [2, 5, 0]
    page = ReadPage(run_page(facts))
    assert "The logs of 5 more ranks are left out." in page.texts["logs"]
    opened = [attributes for tag, attributes in page.tags if tag == "details" and "open" in attributes]
    assert len(opened) == 2


def test_all_logs_together_are_bounded(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_TOTAL", 4000)
    paths = record_run(home, 2, 2)
    for rank in range(4):
        write(paths.rank_log(rank), "0123456789\n" * 1000)
    text = ReadPage(run_page(facts_of(paths))).texts["logs"]
    assert 3000 < text.count("0123456789") * 11 <= 4000 and "before these lines are left out" in text


def test_what_setup_and_launchers_said(home: str) -> None:
    paths = record_run(home, 1, 1)
    write(paths.batch_log, "module load cuda\n")
    write(paths.launcher_log(0), "torchrun says\n")
    write(paths.agent_log(0), "")
    text = ReadPage(run_page(facts_of(paths))).texts["logs"]
    assert "batch.log: 17 B\n\nmodule load cuda" in text and "torchrun-0000.log" in text and "agent" not in text


def test_a_log_that_cannot_be_read_spoils_no_other(home: str) -> None:
    paths = record_run(home, 1, 2)
    Path(paths.rank_log(0)).unlink()
    Path(paths.rank_log(0)).mkdir()
    text = ReadPage(run_page(facts_of(paths))).texts["logs"]
    assert "rank 0: cannot read the log" in text and "hello from rank 1" in text


def test_the_time_of_a_log_is_no_secret(home: str) -> None:
    paths = record_run(home, 1, 1)
    write(paths.rank_log(0), f"{MADE:.0f} started\n")
    assert log_end(facts_of(paths), paths.rank_log(0), 1 << 20).text == "1800000000 started"
