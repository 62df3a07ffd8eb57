"""A result as text, CSV, JSON, page and pictures."""

from __future__ import annotations

import csv
import json
import os
import stat

import pytest
from bench_results import measured, result_of, use_presentation

from worldsize.errors import ConfigError, StorageError
from worldsize.wings.bench.kinds import KINDS
from worldsize.wings.bench.output import files
from worldsize.wings.bench.output.csv_file import csv_text
from worldsize.wings.bench.output.derived import result_data
from worldsize.wings.bench.output.files import write_files
from worldsize.wings.bench.output.terminal import result_lines
from worldsize.wings.bench.result import Table

HOSTILE = "\x1b[31m<script>alert(1)</script>\n=cmd|' /C calc'!A0\u202e"


@pytest.fixture(autouse=True)
def _presentation(monkeypatch):
    use_presentation(monkeypatch)


@pytest.fixture
def result():
    return result_of(
        measured("1x1", 100, gpus=1), measured("1x2", 190, gpus=2, communication=0.05),
        measured("2x2", None, failure="no"),
        hardware=(("CPU", "2 × Some CPU"), ("GPU", "Some GPU")), software=(("PyTorch", "2.9"),),
    )  # fmt: skip


class KindOfTables:
    """A kind that is no curve."""

    @staticmethod
    def tables(result):
        return (
            Table("1x2", ("size", "us"), (("8", "1"), ("16", "2"))), Table("2x2", ("size", "us"), (("8", "3"),)),
            Table("other", ("a",), (("+1.5",), ("+cmd",))),
        )  # fmt: skip

    @staticmethod
    def sentences(result):
        return ("It is as fast as this.",)

    @staticmethod
    def charts(result, pictures):
        return ()


@pytest.fixture
def no_curve(monkeypatch, result):
    monkeypatch.setattr("worldsize.wings.bench.output.derived.kind_of", lambda result: KindOfTables)
    monkeypatch.setattr("worldsize.wings.bench.output.csv_file.kind_of", lambda result: KindOfTables)
    return result._replace(kind="allreduce", scaling="", unit="GB/s")


@pytest.fixture
def without_matplotlib(monkeypatch):
    def draw(charts, format):
        raise ConfigError("drawing a picture needs matplotlib", None, "pip install 'worldsize[plots]'")

    monkeypatch.setattr("worldsize.wings.pictures.provider.draw_charts", draw)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    return tmp_path


def test_the_text_ends_with_what_to_use(result):
    assert result_lines(result) == [
        "ResNet-50",
        "  world  ranks  images/s  middle half  speed-up  efficiency  communication  GPU-hours  cost  run",
        "  1x1    1      100       99.5–100     1.00      100 %       –              1.00       1.00  4kqp",
        "  1x2    2      190       189–191      1.90      95 %        5 %            2.00       1.05  4kqp",
        "  2x2    4      failed    –            –         –           –              –          –     4kqp",
        "",
        "Hardware",
        "  CPU  2 × Some CPU",
        "  GPU  Some GPU",
        "",
        "Software",
        "  PyTorch  2.9",
        "",
        "Use 1x2: 1.90 × the speed of 1x1 at 95 % efficiency, the largest world that was measured.",
        "2x2 failed and is compared with nothing.",
        "2x2: no",
    ]


def test_a_base_of_several_ranks_is_named_and_seconds_stand_where_they_are_known():
    runs = (measured("2x2", 0.01, 0, seconds=100.0), measured("4x2", 0.02, 0, seconds=50.0))
    headers = result_lines(result_of(*runs, kind="job", unit="runs/s"))[1]
    assert "seconds  speed-up over 2x2" in headers and "communication" not in headers


@pytest.mark.parametrize(("codes", "is_said"), [("aaa", False), ("aab", True), ("a b", True), ("a  ", False)])
def test_it_is_said_where_the_code_has_changed_between_worlds(codes, is_said):
    runs = [measured(f"1x{1 << place}", 100 << place, code=code.strip()) for place, code in enumerate(codes)]
    text = "\n".join(result_lines(result_of(*runs)))
    assert ("did not all run the same code" in text) is is_said
    assert ("the same code: 1x1, 1x2; 1x4." in text) is (codes == "aab")


@pytest.mark.parametrize("where", ["base", "world"])
def test_no_efficiency_is_printed_of_what_is_oversubscribed(where):
    said = {"oversubscribed": "8 threads on 4 cores"}
    runs = [measured("1x1", 100, **(said if where == "base" else {})), measured("1x2", 190, **said)]
    text = "\n".join(result_lines(result_of(*runs)))
    assert "95 %" not in text and "oversubscribed" in text and "8 threads on 4 cores" in text


def test_names_of_others_break_no_line(result):
    hostile = result._replace(
        title=HOSTILE, unit=HOSTILE, hardware=((HOSTILE, HOSTILE),), settings={HOSTILE: HOSTILE},
        measurements=(*result.measurements, measured("4x4", None, failure=HOSTILE)),
    )  # fmt: skip
    assert all("\n" not in line for line in result_lines(hostile, result))


def test_json_has_what_follows_from_the_result_and_no_number_that_is_none(result):
    odd = measured("9x9", float("nan"), communication=float("inf"))
    data = json.loads(
        json.dumps(result_data(result._replace(measurements=(*result.measurements, odd))), allow_nan=False)
    )
    assert data["sentences"][0].startswith("Use 1x2") and data["version"] == 1
    first, second, *_ = data["measurements"]
    assert (first["world"], second["speed_up"], second["efficiency"], second["gpu_hours"]) == ("1x1", 1.9, 0.95, 2.0)
    assert data["tables"][0]["headers"][0] == "world" and data["hardware"][0] == ["CPU", "2 × Some CPU"]


def test_csv_has_a_row_for_each_world_of_a_curve(result):
    rows = list(csv.DictReader(csv_text(result).splitlines()))
    assert [(row["world"], row["rate"], row["efficiency"], row["gpu_hours"]) for row in rows] == [
        ("1x1", "100", "1.0", "1.0"), ("1x2", "190", "0.95", "2.0"), ("2x2", "", "", "")
    ]  # fmt: skip
    assert rows[2]["failure"] == "no"


def test_csv_of_no_curve_has_the_rows_of_its_tables(no_curve):
    assert csv_text(no_curve) == "table,size,us\n1x2,8,1\n1x2,16,2\n2x2,8,3\n\ntable,a\nother,+1.5\nother,'+cmd\n"


def test_no_cell_of_csv_is_a_formula_or_two_lines():
    text = csv_text(result_of(measured("1x1", None, failure="=1+1\n2"), measured("1x2", None, failure=HOSTILE)))
    assert len(text.splitlines()) == 3 and ",'=1+1 2\n" in text and "\x1b" not in text


def test_files_are_written_beside_the_result(result, directory, without_matplotlib, capsys):
    paths = write_files(result, str(directory))
    assert [os.path.basename(path) for path in paths] == ["result.csv", "report.html"]
    assert capsys.readouterr().err == (
        "notice: no picture: drawing a picture needs matplotlib: pip install 'worldsize[plots]'\n"
    )
    page = (directory / "report.html").read_text()
    assert "<strong>Use 1x2: 1.90 ×" in page and "<svg" not in page
    for part in ("Tables", "Hardware", "Software", "Runs", "How to read it", "Published figures"):
        assert part in page
    assert stat.S_ISREG((directory / "result.csv").stat().st_mode)


def test_a_picture_of_an_earlier_result_does_not_stay(result, directory, without_matplotlib):
    (directory / "scaling.svg").write_text("<svg/>")
    write_files(result, str(directory))
    assert not (directory / "scaling.svg").exists()


def test_a_link_is_replaced_and_not_followed(result, directory, without_matplotlib):
    target = directory / "elsewhere"
    target.write_text("mine")
    (directory / "result.csv").symlink_to(target)
    write_files(result, str(directory))
    assert target.read_text() == "mine" and not (directory / "result.csv").is_symlink()


def test_what_cannot_be_written_is_named(result, directory, without_matplotlib):
    (directory / "result.csv").mkdir()
    with pytest.raises(StorageError) as error:
        write_files(result, str(directory))
    assert error.value.where.endswith("result.csv")


def test_an_installation_without_pictures_has_csv(result, directory, monkeypatch):
    monkeypatch.setattr(files, "find_provider", lambda kind: None)
    assert [os.path.basename(path) for path in write_files(result, str(directory))] == ["result.csv"]


def test_nothing_in_a_page_is_markup_of_others(result, directory, without_matplotlib):
    hostile = result._replace(title=HOSTILE, hardware=((HOSTILE, HOSTILE),), settings={HOSTILE: HOSTILE}, created=1e300)
    write_files(hostile, str(directory), result)
    page = (directory / "report.html").read_text()
    assert "<script" not in page and "\x1b" not in page and "at an unknown time" in page


def test_a_kind_that_is_missing_is_named(result, monkeypatch):
    monkeypatch.setitem(KINDS, "launch", "worldsize.wings.bench.nothing")
    with pytest.raises(ConfigError, match="`worldsize bench launch` is not part of this installation"):
        result_lines(result._replace(kind="launch"))


@pytest.mark.slow  # not where matplotlib is missing
def test_pictures_are_drawn_and_stand_in_the_page(result, directory):
    paths = write_files(result, str(directory))
    assert [os.path.basename(path) for path in paths] == ["result.csv", "scaling.svg", "scaling.png", "report.html"]
    picture = (directory / "scaling.svg").read_text()
    for text in ("ResNet-50", "measured", "ideal", "Efficiency against 1x1", "recommended above 75 %", "images/s"):
        assert f">{text}</text>" in picture
    assert (directory / "scaling.png").read_bytes().startswith(b"\x89PNG")
    page = (directory / "report.html").read_text()
    assert "<svg" in page and ">Efficiency against 1x1</text>" in page
    write_files(result, str(directory))
    assert (directory / "scaling.svg").read_text() == picture
