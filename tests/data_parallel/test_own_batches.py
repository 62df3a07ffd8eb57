"""Scripts that draw their batches themselves: shared out with equal figures, or refused, or left alone and said."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")

from figure_checks import are_near
from forked_ranks import run_alone, run_on_ranks

pytestmark = pytest.mark.timeout(120)

SCRIPTS = os.path.join(os.path.dirname(__file__), "styles", "own_batches")
SHARED = {
    "cropped_windows": (18, 8),
    "rows_by_numbers": (16, 32),
    "cut_order": (17, 16),
    "generator_of_batches": (15, 16),
    "model_with_loss": (38, 12),
    "replayed_memory": (15, 16),
}
"""Where each takes its first batch, and of how many samples."""

REFUSED = {
    "indices_of_places": "after 3 steps no batch has been divided: every rank would do the same work",
    "stacked_outputs": "after 3 steps no batch has been divided: every rank would do the same work",
    "folds": "were divided, and now a loader yields batches",
}


def path_of(name: str) -> str:
    return os.path.join(SCRIPTS, name + ".py")


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", list(SHARED))
def test_each_rank_takes_its_part(name: str, ranks: int) -> None:
    path, (line, size) = path_of(name), SHARED[name]
    alone, found = run_alone(path), run_on_ranks(path, ranks)
    assert not alone.error and not any(each.error for each in found), found
    lines = list(zip(alone.printed.splitlines(), found[0].printed.splitlines(), strict=True))
    assert len(lines) > 2 and all(are_near(*pair, 1e-9) for pair in lines), lines
    said = "%s:%d: the script's own batches of %d samples are divided among the ranks" % (path, line, size)
    assert found[0].notices[0] == said


def test_what_is_drawn_for_a_loader_is_left_alone() -> None:
    path = path_of("drawn_data_set")
    alone, found = run_alone(path), run_on_ranks(path, 2)
    lines = list(zip(alone.printed.splitlines(), found[0].printed.splitlines(), strict=True))
    assert len(lines) > 2 and all(are_near(*pair, 1e-9) for pair in lines) and not found[0].notices


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_not_seen_to_be_a_batch_is_refused_with_its_line(name: str) -> None:
    for each in run_on_ranks(path_of(name), 2):
        assert "ScriptRefused: %s:" % path_of(name) in each.error and REFUSED[name] in each.error


def test_a_script_that_looks_for_its_rank_is_left_as_it_is() -> None:
    path = path_of("looks_for_its_rank")
    alone, found = run_alone(path), run_on_ranks(path, 2)
    assert found[0].printed == alone.printed and not found[0].error
    assert found[0].notices == [
        "%s:8: the script looks for its rank, and makes its batches itself: it is unchanged" % path
    ]
