"""A run's page as a whole: what stands in it, and what is left of it where files of the run are damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_reports import FAILED, MADE, SUCCEEDED, ReadPage, facts_of, record_run, write

from worldsize.errors import UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.metrics import provider
from worldsize.wings.report import facts
from worldsize.wings.report.command import make_report
from worldsize.wings.report.links import refuse_links_out
from worldsize.wings.report.page import PARTS, run_page

TOKEN = "hf_abcdefghijklmnop1234"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    return str(tmp_path)


def page_of(paths: RunPaths, status: Status = SUCCEEDED) -> ReadPage:
    return ReadPage(run_page(facts_of(paths, status)))


def test_a_failed_run(home: str) -> None:
    paths = record_run(home, codes={2: 1}, secrets=("MY_WORD",))
    write(paths.rank_log(2), f"<script>alert(1)</script>\ntoken {TOKEN}\n\x1b[31mred\x1b[0m\n10%\r100%\n")
    page = page_of(paths, FAILED)
    assert not [tag for tag, _ in page.tags if tag in ("script", "iframe", "img", "link")]
    assert "state|FAILED\nreason|EXIT_CODE\nexit code|1\n" in page.texts["run"]
    assert "ada on login1" in page.texts["run"] and "worldsize|9.9" in page.texts["run"]
    assert page.texts["failure"].strip("\n ").removeprefix("Why it ended this way").strip().startswith("rank 2 fell")
    logs = page.texts["logs"]
    assert logs.index("rank 2: ") < logs.index("rank 0: ")
    assert "<script>alert(1)</script>\ntoken ***\nred\n100%\n" in logs
    assert len([tag for tag, attributes in page.tags if tag == "details" and "open" in attributes]) == 1
    assert TOKEN not in str(page.texts)
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {"#log-0", "#log-2"} <= links
    assert {"#log-2"} <= {"#" + str(attributes.get("id")) for _, attributes in page.tags}


def test_a_run_that_goes_on(home: str) -> None:
    page = page_of(record_run(home), Status("RUNNING", started=MADE + 5, message="node 1 is slow"))
    assert "when the run had not ended" in page.texts["run"] and "node 1 is slow" in page.texts["run"]
    assert "failure" not in page.texts


def test_sections_without_content_are_left_out(home: str) -> None:
    page = page_of(record_run(home))
    assert list(page.texts) == [
        "", "run", "timeline", "ranks", "logs", "job", "plan", "environment", "submission", "files"
    ]  # fmt: skip


def test_a_run_of_which_nothing_is_left(home: str) -> None:
    paths = record_run(home)
    for name in ("plan.json", "record.json", "job.yml", "submission.txt"):
        os.unlink(os.path.join(paths.root, name))
    page = page_of(paths, Status("LOST", "DAMAGED: plan.json", 1, "it has no plan"))
    assert "LOST" in page.texts["run"] and "it has no plan" in page.texts["failure"]


DAMAGES: dict[str, Callable[[str], object]] = {
    "empty": lambda path: write(path, ""),
    "list": lambda path: write(path, "[]"),
    "strange": lambda path: write(path, '{"version":1,"argv":5,"python":[],"git":"x","rows":7,"environment":[1]}'),
    "nested": lambda path: write(path, "[" * 100_000),
    "bytes": lambda path: Path(path).write_bytes(bytes(range(256)) * 20),
    "number": lambda path: write(path, '{"time":1e999,"event":"ranks_started","pids":[1],"cpus":7,"host":[]}\n'),
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_spoil_no_other_section(home: str, damage: str) -> None:
    paths = record_run(home, codes={2: 1})
    write(paths.attempt_dir + "/check.json", {})
    for path in (
        paths.record, paths.job, paths.submission, paths.environment, paths.diff, paths.events(0), paths.exit_record(1),
        paths.rank_log(0), paths.rank_error(2), paths.attempt_dir + "/check.json", paths.batch_log,
    ):  # fmt: skip
        if os.path.lexists(path):
            os.unlink(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        DAMAGES[damage](path)
    page = page_of(paths, FAILED)
    assert "FAILED" in page.texts["run"] and "rank 2 fell" in page.texts["failure"]
    assert {"ranks", "plan", "files", "logs"} <= set(page.texts)


def test_a_damaged_plan(home: str) -> None:
    paths = record_run(home)
    for text in ("", "[]", '{"version":1}', "[" * 100_000):
        write(paths.plan, text)
        run = Run(paths, {})
        page = ReadPage(make_report(run, [run.look()], 10))
        assert "DAMAGED: plan.json" in page.texts["run"] and "plan.json" in page.texts["failure"]


def test_every_part_has_a_name_of_its_own() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)


def moved_away(paths: RunPaths, directory: Path) -> RunPaths:
    """The run, as a copy that is none of this user's own."""
    copy = RunPaths(str(directory / "copies" / paths.run_id))
    os.makedirs(os.path.dirname(copy.root), exist_ok=True)
    os.rename(os.path.realpath(paths.root), copy.root)
    return copy


def test_a_strangers_plan_does_not_ask_for_variables_of_this_process(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_WORD", "correct-horse-battery")
    paths = record_run(home, secrets=("MY_WORD",))
    for rank in (0, 2):
        write(paths.rank_log(rank), "is it correct-horse-battery?\n")
    page = page_of(paths, FAILED)
    assert "is it ***?" in page.texts["logs"] and "is it ***?" in page.texts["failure"]
    copy = moved_away(paths, tmp_path)
    page = page_of(copy, FAILED)
    assert "is it correct-horse-battery?" in page.texts["logs"], "what a stranger guessed is not confirmed"
    assert "is it correct-horse-battery?" in page.texts["failure"]


def test_a_link_out_of_another_users_run(home: str, tmp_path: Path) -> None:
    copy = moved_away(record_run(home), tmp_path)
    os.symlink("4711:12", copy.preparing)
    assert make_report(Run(copy, {}), [SUCCEEDED], 10)
    (tmp_path / "id_rsa").write_text("mine")
    os.unlink(copy.rank_log(0))
    os.symlink(tmp_path / "id_rsa", copy.rank_log(0))
    with pytest.raises(UsageError, match="link in it leads elsewhere") as told:
        make_report(Run(copy, {}), [SUCCEEDED], 10)
    assert told.value.where == copy.rank_log(0) and told.value.hint


def test_a_strangers_plan_names_an_error_file_of_this_user(home: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"message": "PRIVATE: words"}))
    paths = record_run(home, codes={2: 1}, environment={"TORCHELASTIC_ERROR_FILE": str(mine)})
    assert "PRIVATE: words" in page_of(paths, FAILED).texts["failure"]
    page = page_of(moved_away(paths, tmp_path), FAILED)
    assert "rank 2 fell" in page.texts["failure"] and "PRIVATE" not in str(page.texts["failure"])


def test_of_a_strangers_run_no_event_files_elsewhere_are_read(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def read_series(paths: RunPaths, every_rank: bool, outside: bool) -> tuple[()]:
        asked.append(outside)
        return ()

    monkeypatch.setattr(provider, "read_series", read_series)
    paths = record_run(home)
    page_of(paths)
    page_of(moved_away(paths, tmp_path))
    assert asked == [True, False]


@pytest.mark.parametrize("name", ["run_1", "a_b/run_1"])
def test_a_directory_that_is_named_like_an_element(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir(parents=True)
    (root.parent / "mine").write_text("mine")
    (root / "job.yml").symlink_to(root.parent / "mine")
    with pytest.raises(UsageError, match="link in it leads elsewhere"):
        refuse_links_out(str(root))


@pytest.mark.parametrize("place", ["submission.txt", "417k_1/outputs/trials.csv"])
def test_links_that_the_page_of_an_element_or_a_search_follows(tmp_path: Path, place: str) -> None:
    link = tmp_path / "417k" / place
    (tmp_path / "417k" / "417k_1" / "outputs").mkdir(parents=True)
    link.symlink_to(tmp_path / "417k" / "job.yml")
    refuse_links_out(str(tmp_path / "417k" / "417k_1"))
    link.unlink()
    link.symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="link in it leads elsewhere"):
        refuse_links_out(str(tmp_path / "417k" / "417k_1"))


def test_records_have_a_total_size_and_names_a_length(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = record_run(home, 3, 1)
    write(paths.plan, {**json.loads(Path(paths.plan).read_text()), "name": "n" * 10_000})
    size = os.path.getsize(paths.events(0)) + os.path.getsize(paths.exit_record(0))
    monkeypatch.setattr(facts, "_ALL_RECORD_BYTES", 2 * size)
    assert [node.host for node in facts_of(paths).nodes] == ["n0", "n1", ""]
    record = json.loads(Path(paths.exit_record(0)).read_text())
    write(paths.exit_record(0), {**record, "host": "h" * 100_000})
    assert len(run_page(facts_of(paths))) < 60_000
