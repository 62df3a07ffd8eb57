"""The page of a benchmark, with its picture, in a real browser: it asks for nothing, and its policy refuses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import run_browser

from worldsize.wings.bench.kinds import KINDS
from worldsize.wings.bench.output.files import write_files
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World

HOSTILE = "<script>document.title = 'taken'</script><img src=https://example.org/a.png onerror=alert(1)>"


@pytest.mark.exhaustive
def test_the_page_of_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "resnet50", "worldsize.wings.bench.scaling.presentation")
    gpu = {"device": "NVIDIA A100-SXM4-80GB"}
    runs = [
        Measurement(World(1, ranks), "4kqp", rate, (rate * 0.99, rate, rate * 1.01), held=60.0, gpus=ranks, details=gpu)
        for ranks, rate in ((1, 2400.0), (8, 15900.0))
    ]
    runs.append(Measurement(World(2, 8), "4kqq", failure=HOSTILE))
    result = BenchResult(
        "resnet50", "ResNet-50", "images/s", "weak", "local", 1.7e9, "1.0",
        {"precision": "fp16", "framework": "torch", "note": HOSTILE}, (("GPU", HOSTILE),), (), tuple(runs),
    )  # fmt: skip
    (tmp_path / "result.json").write_text("{}")
    write_files(result, str(tmp_path))
    with run_browser(tmp_path / "browser") as browser:
        shown = browser.open_page(tmp_path / "report.html", ask=("document.querySelectorAll('svg').length",))
        assert (shown.title, shown.requests, shown.messages, shown.answers) == ("ResNet-50", [], [], [1])
        for text in ("Use 1x8: 6.6 × the speed of 1x1 at 83 % efficiency", HOSTILE, "best known", "How to read it"):
            assert text in shown.text
        assert browser.open_page(tmp_path / "report.html", dark=True, width=400).width <= 400
