"""Scripts in the styles that people write them: each figure that they print on two ranks is that of one process, or its
line is named; and so are their weights."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from figure_checks import are_near, named_lines
from forked_ranks import run_alone, run_on_ranks

pytestmark = pytest.mark.timeout(300)

STYLES = os.path.join(os.path.dirname(__file__), "styles")
NAMED = {
    "mean_of_padded": "a mean over padded positions, which differ",
    "sum_by_places": "the value computed here",
    "padded_predictions": "the value computed here",
    "packed_in_script": "the value computed here",
    "packed_by_lengths": "the value computed here",
}
"""What is said of those whose figures are not all those of one process."""

TOLD = {"constant_hidden_state": "Expected hidden"}
"""Errors, beside which it is told that batches are cut."""


def _styles(folder: str) -> list[str]:
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(STYLES, folder, "*.py")))


def _check(tmp_path: Path, folder: str, name: str) -> None:
    for source in (os.path.join(STYLES, "small_data.py"), os.path.join(STYLES, folder, name + ".py")):
        shutil.copy(source, tmp_path)
    path = str(tmp_path / (name + ".py"))
    alone, ranks = run_alone(path), run_on_ranks(path, 2)
    assert not alone.error
    if name in TOLD:
        assert all(TOLD[name] in each.error for each in ranks)
        return
    assert not any(each.error for each in ranks)
    expected, found = alone.printed.splitlines(), ranks[0].printed.splitlines()
    assert len(expected) == len(found) > 1
    if name in NAMED:
        assert any(NAMED[name] in notice for notice in ranks[0].notices) and named_lines(ranks[0])
        return
    assert all(are_near(*pair, 1e-5) for pair in zip(expected, found, strict=True)), (expected, found)
    assert not ranks[0].notices


@pytest.mark.parametrize("name", _styles("figures"))
def test_figures(tmp_path: Path, name: str) -> None:
    _check(tmp_path, "figures", name)


@pytest.mark.parametrize("name", _styles("gradients"))
def test_gradients(tmp_path: Path, name: str) -> None:
    _check(tmp_path, "gradients", name)


@pytest.mark.parametrize("name", _styles("losses"))
def test_losses(tmp_path: Path, name: str) -> None:
    _check(tmp_path, "losses", name)


@pytest.mark.parametrize("name", _styles("noise"))
def test_noise(tmp_path: Path, name: str) -> None:
    _check(tmp_path, "noise", name)


@pytest.mark.parametrize("name", _styles("sequences"))
def test_sequences(tmp_path: Path, name: str) -> None:
    _check(tmp_path, "sequences", name)
