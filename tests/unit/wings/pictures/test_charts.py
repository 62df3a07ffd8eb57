"""Charts: the same picture for the same chart, whatever the settings of the person; hostile text and numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_pages import Parsed
from selection import cases

from worldsize.errors import ConfigError
from worldsize.wings.pictures.chart import Chart, Line, draw_chart, draw_charts
from worldsize.wings.pictures.colours import FADED, PALETTE
from worldsize.wings.pictures.legend import looks, shown_text
from worldsize.wings.pictures.page import make_page

pytestmark = pytest.mark.slow  # not where matplotlib is missing
NAN, INF = float("nan"), float("inf")
SPEED_UP = Chart(
    "Speed-up", "ranks", "samples/s",
    (Line("ideal", (1, 2, 4, 8, 16), (10, 20, 40, 80, 160), True), Line("ddp", (1, 2, 4, 8, 16), (10, 19, 36, 66, 99))),
    x_scale="log2", y_scale="log2", x_ticks=(1, 2, 4, 8, 16), y_ticks=(10, 20, 40, 80, 160),
)  # fmt: skip


def chart_of(*ys: float, **more: str) -> Chart:
    return Chart("t", "x", "y", (Line("a", range(len(ys)), ys),), **more)


def texts(chart: Chart) -> list[str]:
    picture = ElementTree.fromstring(draw_chart(chart))
    return [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]


def test_the_same_chart_is_the_same_picture() -> None:
    for format in ("svg", "png"):
        assert draw_chart(SPEED_UP, format) == draw_chart(SPEED_UP, format)
    assert b"<dc:date>" not in draw_chart(SPEED_UP)
    assert draw_chart(SPEED_UP, "png").startswith(b"\x89PNG")


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="svg or png, not exe"):
        draw_chart(SPEED_UP, "exe")


DRAW = """
import sys
from worldsize.wings.pictures.chart import Chart, Line, draw_chart
sys.stdout.buffer.write(draw_chart(Chart("t", "x", "y", (Line("a", range(9), range(9)),))))
sys.exit("matplotlib.pyplot" in sys.modules)
"""


def test_settings_of_the_person_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text(
        "lines.linewidth: 9\ntext.usetex: True\nbackend: TkAgg\naxes.facecolor: red\n"
    )
    path = os.pathsep.join(each for each in sys.path if each)
    more = {"MPLBACKEND": "rubbish", "DISPLAY": "", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", DRAW], cwd=tmp_path, env={**os.environ, **more}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == draw_chart(chart_of(*range(9)))


@pytest.mark.exhaustive
def test_without_a_home_nothing_is_said_and_nothing_left(tmp_path: Path) -> None:
    path = os.pathsep.join(each for each in sys.path if each)
    as_worldsize_ends = DRAW.replace("sys.exit(", "sys.stdout.flush(), __import__('os')._exit(")
    without = {"HOME": "/proc", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    for more, program in ((without, as_worldsize_ends), ({"MPLCONFIGDIR": "/proc/none"}, DRAW)):
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path), **more}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
        assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (0, b"", [])


DRAW_NOTHING = """
from worldsize.wings.pictures.chart import draw_charts
try:
    draw_charts([])
except Exception as error:
    print(type(error).__name__, error.hint)
"""


@pytest.mark.exhaustive
def test_settings_that_break_matplotlib_are_named(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe\xff")
    path = os.pathsep.join(each for each in sys.path if each)
    environ = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", DRAW_NOTHING], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.stdout == "ConfigError check ./matplotlibrc and ~/.config/matplotlib/matplotlibrc\n"


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError) as caught:
        draw_chart(SPEED_UP)
    assert caught.value.what == "drawing a picture needs matplotlib, which is not installed (extra plots)"
    assert caught.value.hint == "pip install 'worldsize[plots]'"


@pytest.mark.parametrize("scale", ["linear", "log", "log2"])
@pytest.mark.parametrize("ys", [(), (NAN,), (INF, -INF, NAN), (1e300, -1e308)])
def test_a_chart_without_numbers_says_so(ys: tuple[float, ...], scale: str) -> None:
    assert "no values" in texts(chart_of(*ys, x_scale=scale, y_scale=scale))


def test_a_logarithmic_axis_has_what_is_above_zero() -> None:
    assert "no values" in texts(chart_of(0, -1, -5, y_scale="log"))
    assert "no values" not in texts(chart_of(0, -1, 5, y_scale="log"))


def test_numbers_of_an_axis_are_the_ones_asked_for() -> None:
    shown = texts(SPEED_UP)
    assert [each for each in shown if each in ("1", "2", "4", "8", "16")] == ["1", "2", "4", "8", "16"]
    assert {"Speed-up", "ranks", "samples/s", "ideal", "ddp", "160"} <= set(shown)


def test_steps_have_whole_numbers() -> None:
    assert {"0", "1", "2"} <= set(texts(chart_of(3, 1, 2)))
    assert not [each for each in texts(chart_of(3, 1, 2)) if each.startswith("0.2")]


def test_bars_are_grouped_by_their_x() -> None:
    lines = (Line("a", (1, 2, 4), (3, 2, 1)), Line("b", (2, 4, 8), (2.5, NAN, 0.4)))
    chart = Chart("t", "ranks", "s", lines, kind="bar")
    assert [each for each in texts(chart) if each in "1248"] == ["1", "2", "4", "8"]
    assert draw_chart(chart).count(PALETTE[0].encode()) == 4, "three bars and the legend"


def test_text_of_runs_is_text() -> None:
    labels = ["$x$ $\\frac{", "_hidden", "<b>&amp;", "\x00\x1b[31m", "\ud800", "\ufffe", "a\nb", "日本語 🙂", ""]
    for title in ("$\\frac{", "\x00<b>\ud800\uffff"):
        chart = Chart(title, title, title, tuple(Line(label, (1, 2), (1, 2)) for label in labels))
        shown = texts(chart)
        assert shown.count(shown_text(title, 90)) == 3
        assert {shown_text(label, 90) for label in filter(None, labels)} < set(shown)
        assert draw_chart(chart, "png")
        assert Parsed(make_page("t", draw_chart(chart))).tags.count("svg") == 1


def test_long_text_is_cut() -> None:
    assert max(map(len, texts(chart_of(1, 2)._replace(title="x" * 10000, x_label="y" * 10000)))) == 90


@pytest.mark.exhaustive
@settings(max_examples=cases(30))
@given(st.lists(st.floats(), max_size=5), st.sampled_from(["linear", "log", "log2"]), st.sampled_from(["line", "bar"]))
def test_any_numbers_are_drawn(ys: list[float], scale: str, kind: str) -> None:
    lines = (Line("a", ys, ys), Line("b", range(len(ys)), ys))
    draw_chart(Chart("t", "x", "y", lines, kind=kind, x_scale=scale if kind == "line" else "linear", y_scale=scale))


def test_of_many_lines_the_first_have_names() -> None:
    def chart(count: int) -> Chart:
        return Chart("t", "x", "y", tuple(Line("line %d" % number, (1, 2), (number, 2)) for number in range(count)))

    named = [look for look in looks(chart(12)) if look.named]
    assert len({(look.colour, look.style) for look in named}) == 12
    many = looks(chart(300))
    assert [look.named for look in many] == [True] * 8 + [False] * 192
    assert {look.colour for look in many[8:]} == {FADED}
    assert [each for each in texts(chart(300)) if "line" in each or "more" in each][-1] == "and 292 more"


def test_one_line_needs_no_legend() -> None:
    assert "a" not in texts(chart_of(1, 2))


def test_panels_share_an_axis_that_they_have_in_common() -> None:
    both = draw_charts([chart_of(1, 2), chart_of(3, 4)])
    apart = draw_charts([chart_of(1, 2), chart_of(3, 4)._replace(x_label="z")])
    assert (both.count(b">x</text>"), apart.count(b">x</text>"), apart.count(b">z</text>")) == (1, 1, 1)


def test_panels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldsize.wings.pictures.chart._MOST_PANELS", 3)
    assert draw_charts([chart_of(1)] * 5).count(b">y</text>") == 3
    assert draw_charts([])


def test_a_point_between_gaps_is_seen() -> None:
    def marks(*between: float) -> int:
        return draw_chart(chart_of(*range(40), *between, *range(40))).count(b"<use ")

    assert marks(NAN, 5, NAN) == marks(NAN, NAN, NAN) + 1


def test_large_lines_are_small_pictures() -> None:
    ys = [float(number * 7919 % 1000) for number in range(50_000)]
    assert len(draw_chart(chart_of(*ys))) < 80_000
    assert len(draw_chart(chart_of(*ys)._replace(lines=(Line("a", range(50_000), ys),) * 10))) < 600_000


def test_inside_a_page_pictures_have_its_ink_and_no_styles() -> None:
    page = make_page("t", draw_chart(SPEED_UP)).decode()
    body = page[page.index("<body>") :]
    assert "currentColor" in body and "style=" not in body and "<style" not in body and "#ffffff" not in body
    assert 'aria-label="Speed-up"' in body and "stroke-dasharray" in body


def test_the_spread_of_points_is_drawn_where_there_is_one() -> None:
    line = Line("a", (1, 2, 4), (10, 20, 40), lows=(9, NAN, 35), highs=(11, 21, INF))
    chart = Chart("t", "x", "y", (line,), x_scale="log2", y_scale="log2")
    drawn = draw_chart(chart)
    assert drawn.count(b"LineCollection") == 1 and drawn != draw_chart(chart._replace(lines=(line._replace(lows=()),)))
    odd = (Line("a", (1, 2), (1, 2), lows=(5, -1), highs=(4,)), Line("b", (), (), lows=(1,), highs=(2,)))
    assert b"LineCollection" not in draw_chart(chart._replace(lines=odd))


def test_lines_to_compare_with_are_told_apart_by_their_dashes() -> None:
    lines = tuple(Line(str(number), (1, 2), (1, 2), True) for number in range(5))
    found = looks(Chart("t", "x", "y", (Line("own", (1, 2), (1, 2)), *lines)))
    assert len({str(look.style) for look in found[:5]}) == 5
    assert {look.colour for look in found[1:]} == {FADED}
