"""The card of a run: what it says, of hostile names and damaged runs too."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.service.providers import PROVIDERS, Provider
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.store.runs import create_run
from worldsize.wings.python_surface.notebook.card import card_html, card_text

HOSTILE = "</div><script>alert(1)</script>\"'<img src=x onerror=y>\x1b[31m\u202e\ud800"
RUNNING = Status("RUNNING", started=1.0)


def make_run(home: Path, nodes: int = 2, **fields: Any) -> Run:
    paths = create_run(str(home))
    plan = Plan(paths.run_id, "train", "local", 1.0, 0, node_major_layout(nodes, 4), ("true",), {})._replace(**fields)
    write_text(paths.plan, plan.to_json())
    write_json(paths.record, {})
    return Run(paths, {})


def write_log(run: Run, content: bytes) -> None:
    os.makedirs(os.path.dirname(run.paths.rank_log(0)), exist_ok=True)
    Path(run.paths.rank_log(0)).write_bytes(content)


class Parsed(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_it_tells_the_state_the_size_the_ranks_and_the_last_line(tmp_path: Path) -> None:
    run = make_run(tmp_path, labels={"experiment_name": "digits", "tags": {"lr": "0.1"}})
    write_log(run, b"epoch 1\nepoch 2\n")
    text = Parsed(card_html(run, [RUNNING])).text
    assert text.startswith("RUNNING\n")
    assert "train: 2 nodes, 8 ranks on local; world size 8, " in text
    assert "0\n0-3\n1\n4-7\n" in text
    assert "experiment: digits\ntags: lr=0.1\n" in text
    assert "rank 0: \nepoch 2\n" in text and "epoch 1" not in text
    assert card_text(run, [RUNNING]) == "Run('%s') RUNNING" % run.id


def test_what_others_say_is_no_markup_and_drives_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, name=HOSTILE, compute=HOSTILE, labels={"description": HOSTILE, "tags": {HOSTILE: HOSTILE}})
    write_log(run, HOSTILE.encode("utf-8", "surrogatepass") + b"\xff\x00")
    html = card_html(run, [RUNNING._replace(reason=HOSTILE, message=HOSTILE)])
    parsed = Parsed(html)
    assert parsed.tags == {"div", "b", "code", "table", "tr", "th", "td"}
    assert parsed.attributes == {"style"}
    assert "\x1b" not in html and "\u202e" not in html and "http" not in html and "url(" not in html
    html.encode("utf-8")


def test_a_rank_that_prints_a_secret_has_it_masked(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_log(run, b"export API_TOKEN=abcdef123456\n")
    assert "abcdef123456" not in card_html(run, [RUNNING])


def test_long_lines_and_many_nodes_are_cut(tmp_path: Path) -> None:
    run = make_run(tmp_path, nodes=1000)
    write_log(run, b"x" * 1_000_000)
    html = card_html(run, [RUNNING])
    assert "… and 984 more" in html and len(html) < 10_000


@pytest.mark.parametrize("content", ["", "{}", "[" * 5000, '{"version": 999}'])
def test_a_damaged_run_has_a_card(content: str, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    Path(run.paths.plan).write_text(content)
    again = Run(run.paths, {})
    html = again._repr_html_()
    assert html is not None and "<b" in html


def test_without_the_wing_it_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS, "notebooks", Provider("wings.nowhere.live_card", "runs in notebooks"))
    run = make_run(tmp_path)
    assert run._repr_html_() is None
    with pytest.raises(NotImplementedError):
        run._ipython_display_()
