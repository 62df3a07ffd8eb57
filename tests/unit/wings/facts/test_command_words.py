"""What the helper that looks at a node is told of the ranks' command."""

from __future__ import annotations

import pytest

from worldsize.wings.facts.agent.command_words import program_words


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["bash", "-c", "export KEY=hunter2; (python3 train.py --token hunter2)"], ["bash", "python3"]),
        (["/env/bin/python3.11", "train.py", "--token=hunter2"], ["/env/bin/python3.11", "/env/bin/python3.11"]),
        (["train", "--token", "hunter2"], ["train"]),
        ([], []),
    ],
)
def test_no_other_word_is_told_which_may_be_a_secret(argv: list[str], words: list[str]) -> None:
    assert program_words(argv) == words
