"""`--only` and `--skip`: ids, and what stands before their dots."""

from __future__ import annotations

import pytest

from worldsize.errors import UsageError
from worldsize.wings.checks.agent.selection import row_ids
from worldsize.wings.checks.selection import SCRIPT_IDS, all_ids, selected_ids, words


def test_everything_without_words() -> None:
    assert selected_ids([], []) == all_ids() == (*SCRIPT_IDS, *row_ids())
    assert len(set(all_ids())) == len(all_ids())


@pytest.mark.parametrize("given", [["gpu.count"], ["gpu"], ["gpu,clock"], ["gpu", "clock"], ["script", "gpu"]])
def test_ids_and_what_stands_before_the_dot(given: list[str]) -> None:
    named = ",".join(given).split(",")
    found = selected_ids(given, [])
    assert found and all(name in named or name.partition(".")[0] in named for name in found)
    assert set(found) | set(selected_ids([], given)) == set(all_ids())


def test_what_is_asked_for_and_skipped_is_skipped() -> None:
    assert "gpu.ecc" not in selected_ids(["gpu"], ["gpu.ecc"])
    with pytest.raises(UsageError, match="no row is left"):
        selected_ids(["gpu.ecc"], ["gpu"])


@pytest.mark.parametrize(("word", "nearest"), [("gpus", "gpu"), ("network.prot", "network.port"), ("", None)])
@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_a_word_that_names_no_row(word: str, nearest: str | None, option: str) -> None:
    with pytest.raises(UsageError) as told:
        selected_ids([word], []) if option == "--only" else selected_ids([], [word])
    assert told.value.exit_code == 2 and told.value.where == option
    assert nearest is None or told.value.hint == f"did you mean {nearest!r}?"


def test_a_word_that_is_like_no_row_is_told_what_there_is() -> None:
    with pytest.raises(UsageError) as told:
        selected_ids(["xyzzy"], [])
    assert told.value.hint is not None and told.value.hint.startswith("there are: script, ")
    assert "clock" in told.value.hint and "gpu.count" not in told.value.hint


def test_words_for_the_shell() -> None:
    assert {"gpu", "gpu.count", "clock", "script"} <= set(words()) and len(set(words())) == len(words())
    for word in words():
        assert selected_ids([word], [])
