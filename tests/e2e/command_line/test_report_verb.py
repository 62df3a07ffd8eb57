"""`worldsize report` of real runs, as a browser shows their pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, run_browser
from driver import Cli

TOKEN = "hf_abcdefghijklmnop1234"
HOSTILE = "<img src=http://127.0.0.1:9/a.png onerror=alert(1)><script>document.title = 'taken'</script>"
SCRIPT = """
import os, sys, time
import worldsize

for step in range(20):
    worldsize.log(step=step, loss=1 / (step + 1))
print(%r, %r)
if os.environ["RANK"] == sys.argv[1]:
    raise ValueError("shard is empty")
""" % (HOSTILE, TOKEN)
FOLDED = "[...document.querySelectorAll('details')].map(each => each.querySelector('summary').textContent)"
OPENED = "[...document.querySelectorAll('details[open]')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with run_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


def run_of(cli: Cli, failing: str) -> str:
    cli.write("train.py", SCRIPT)
    result = cli("run", "-q", "-w", "2x2", "--", "python", "train.py", failing)
    assert result.code == (1 if failing != "none" else 0), result
    (run_id,) = [name for name in os.listdir(os.path.join(cli.home, "runs")) if name.startswith("2")]
    return run_id


def test_a_failed_run_in_a_browser(cli: Cli, browser: Browser) -> None:
    run_id = run_of(cli, "2")
    result = cli("report")
    assert result.code == 0 and f"{run_id}.html: " in result.out, result
    path = Path(cli.project, run_id + ".html")
    shown = browser.open_page(path, ask=(FOLDED, OPENED))
    assert not shown.requests and not shown.messages
    assert shown.title == f"{run_id} train: FAILED" and "ValueError: shard is empty" in shown.text
    folded, (opened,) = shown.answers
    of_ranks = [each for each in folded if each.startswith("rank ")]
    assert of_ranks[0].startswith("rank 2: ") and len(of_ranks) == 4
    assert HOSTILE in opened and TOKEN not in path.read_text()
    assert shown.width <= 1000, "nothing of it must be scrolled sideways"


def test_a_run_that_succeeded_and_logged(cli: Cli) -> None:
    run_id = run_of(cli, "none")
    result = cli("report", run_id, "--to", "-")
    assert result.code == 0 and ">SUCCEEDED<" in result.out and 'id="failure"' not in result.out, result
    assert 'id="metrics"' in result.out and ">loss<" in result.out
