"""Scripts, expressions and variables that a few lines make endless: they are read to the end, and count as not known or
are refused. Those of people are read as before."""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType

import pytest

from worldsize.environment.activation import expand_variables
from worldsize.errors import JobError, UsageError
from worldsize.jobspec.expressions import resolve_expressions
from worldsize.wings.batch_scripts.script.parse import parse_script, split_words
from worldsize.wings.batch_scripts.script.shell_values import UNKNOWN, expanded_commands

GIVEN = {"N": "2", "T": "4"}


def last(*lines: str) -> tuple[str, ...]:
    """The words of the last command."""
    return expanded_commands("\n".join(lines), GIVEN)[-1].words


def scanned(text: str, most: int) -> list[tuple[str, ...]]:
    """The words of each command, found with at most so many calls of functions."""
    steps = 0

    def step(frame: FrameType, event: str, value: object) -> None:
        nonlocal steps
        steps += 1
        if steps > most:
            raise AssertionError("more than %d steps" % most)

    sys.setprofile(step)
    try:
        return [each.words for each in expanded_commands(text, GIVEN)]
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("line", ['A="$A$A"', "A=$A$A", "A=${A}x$A", 'export A="$A$A"', "B=$A$A; A=$B"])
def test_a_variable_that_doubles(line: str) -> None:
    """Found by review: sixty lines took all memory."""
    assert last("A=aaaaaaaaaaaaaaaa", *[line] * 60, 'echo "$A" end') == ("echo", UNKNOWN, "end")


@pytest.mark.heavy
def test_a_long_variable_of_which_a_word_holds_many() -> None:
    """Found by review: a word is as long as the values in it."""
    for word in ("$A" * 100_000, '"%s"' % ("$A" * 100_000)):
        assert last("A=" + "a" * 1000, "echo %s end" % word) == ("echo", UNKNOWN, "end")


def test_a_variable_that_doubles_a_few_times() -> None:
    """As far as people go, its value is known."""
    assert last("A=ab", *['A="$A$A"'] * 8, "echo $A") == ("echo", "ab" * 256)


@pytest.mark.parametrize(
    "expression",
    [
        *("9" * 5000, "(" * 20_000 + "1" + ")" * 20_000, "-" * 20_000 + "1"),
        *("9**9**9", "*".join(["9999999999"] * 2000), "1+" * 200_000 + "1"),
    ],
)
def test_arithmetic_without_an_end(expression: str) -> None:
    """Found by review: a traceback for many digits, or for many brackets."""
    assert last("A=$((%s))" % expression, "echo $A") == ("echo", UNKNOWN)


@pytest.mark.parametrize("start", ["3", "-3", "9223372036854775807"])
def test_a_number_that_is_squared_again_and_again(start: str) -> None:
    """Found by review: its digits double with each line."""
    assert last("A=%s" % start, *["A=$((A*A))"] * 60, "echo $A") == ("echo", UNKNOWN)


def test_arithmetic_of_people() -> None:
    lines = ("A=$((N * T + 1))", "B=$(( (A - 1) / T % 3 ))", "C=$((((((A))))))", "D=$((1000000 * 1000000))")
    assert last(*lines, "echo $A $B $C $D $((-N))") == ("echo", "9", "2", "9", "1000000000000", "-2")


@pytest.mark.exhaustive(unless=["V%d=%d true-known2", "V%d=%d-known0"])
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("form", "known"),
    [("V%d=%d", ("5", "2")), ("export V%d=%d", (UNKNOWN, UNKNOWN)), ("V%d=%d true", (UNKNOWN, "2"))],
)
def test_many_variables(form: str, known: tuple[str, str]) -> None:
    """Found by review: all of them were copied for each line. After so many commands nothing counts as known."""
    lines = [form % (number, number) for number in range(20_000)]
    seen = expanded_commands("\n".join([*lines, "echo $V5 $N"]), GIVEN)[-1]
    assert seen.words == ("echo", *known)
    assert len(seen.variables) <= 2000 + len(GIVEN)


def test_variables_beyond_those_that_are_kept() -> None:
    """One that is not kept is not known; one that is kept changes all the same."""
    lines = ["V%d=%d" % (number, number) for number in range(5000)]
    assert last(*lines, "V5=changed", "echo $V5 $V4999") == ("echo", "changed", UNKNOWN)


def test_commands_see_the_variables_of_their_own_time() -> None:
    """Found while this was mended: they share what does not change between them, and nothing else."""
    text = "A=1\ntrue one\ntrue two\nA=2\nB=3 true three\nexport A\ntrue four\nunset A\ntrue five\nread A\ntrue six"
    seen = {each.words[1]: each.variables for each in expanded_commands(text, GIVEN) if each.words[0] == "true"}
    values = {name: found["A"].value for name, found in seen.items()}
    assert values == {"one": "1", "two": "1", "three": "2", "four": "2", "five": "", "six": None}
    assert {name for name, found in seen.items() if found["A"].exported} == {"four"}
    assert [name for name, found in seen.items() if "B" in found] == ["three"]


@pytest.mark.heavy
def test_an_option_of_half_a_megabyte() -> None:
    """Found by review: a list was copied for each of its characters, and it was compared with every option's name."""
    word = "--" + "x" * 500_000
    assert split_words("%s  '%s y'" % (word, word)) == [word, word + " y"]
    script = parse_script("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH %s\nsrun true\n" % word, "big.slurm")
    assert script.value("nodes") == "2" and [fault.line for fault in script.faults] == [3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--a=1 -b 2", ["--a=1", "-b", "2"]),
        ("'' \"\" x''", ["", "", "x"]),
        ("a\\ b 'c d'\"e f\"g", ["a b", "c de fg"]),
        ("\\' end\\", ["'", "end\\"]),
        ("a#b c", ["a"]),
        ("   ", []),
    ],
)
def test_words_of_people(line: str, words: list[str]) -> None:
    assert split_words(line) == words


def test_expressions_that_are_never_closed() -> None:
    """Found by review: each beginning was looked for to the end of the text."""
    for text in ("${{inputs.a" * 30_000, "$[[ ${{inputs.a" * 30_000, "${{" * 200_000, "${{a}" * 100_000):
        with pytest.raises(JobError, match="has no closing"):
            resolve_expressions(text, {"a": "1"}, {})
    assert resolve_expressions("${{inputs.a}}" + "$[[" * 200_000, {"a": "1"}, {}) == "1" + "$[[" * 200_000


def test_an_input_that_is_named_many_times() -> None:
    """Found by review: a job file of one megabyte made a command of eight gigabytes."""
    with pytest.raises(JobError, match="longer than"):
        resolve_expressions("${{inputs.a}}" * 20_000, {"a": "x" * 400_000}, {})
    assert resolve_expressions("${{inputs.a}}" * 20_000, {"a": "xy"}, {}) == "xy" * 20_000


def test_variables_of_an_environment_that_double() -> None:
    """Found by review: sixty of them took all memory."""
    known = {"V": "a" * 16}
    with pytest.raises(UsageError, match="longer than a variable can be"):
        for _ in range(60):
            known["V"] = expand_variables("$V${V}", known)
    assert len(known["V"]) <= 1 << 17
    assert expand_variables("~/$A:${A}:$UNKNOWN", {"A": "b", "HOME": "/h"}) == "/h/b:b:$UNKNOWN"


@pytest.mark.heavy
def test_many_variables_that_change_between_commands() -> None:
    """Found by review: each command kept a copy of all of them: a script of 4 MiB took 30 GB."""
    lines = ["V%d=%d" % (number, number) for number in range(2000)] + ["V0=1", ":"] * 5000
    tracemalloc.start()
    try:
        expanded_commands("\n".join(lines), {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20, peak


@pytest.mark.parametrize("sign", ["\xa0", "\f", "\v", "\u2028", "\u2029", "\x85", "\x1c", "\u3000"])
def test_blanks_that_are_none_of_bash(sign: str) -> None:
    """Found by review: a word ended there, the next one began there, and so for ever. They are parts of words."""
    text = "srun%s--exact python%strain.py >%sout %s\necho end" % ((sign,) * 4)
    assert scanned(text, 10_000) == [("srun%s--exact" % sign, "python%strain.py" % sign, sign), ("echo", "end")]
    text = "cat <<E%sF\necho in\nE%sF\necho end" % (sign, sign)
    assert scanned(text, 10_000) == [("cat",), ("echo", "end")]


def test_blanks_of_bash() -> None:
    """A carriage return counts as one: scripts come from Windows too."""
    assert scanned("a\tb  c\r\nd\\\n e\r", 10_000) == [("a", "b", "c"), ("d", "e")]
