"""In what ranks may differ that are forked from one process, and what of it each is given."""

from __future__ import annotations

import pytest

from worldsize.agent.launchers.rank_process import Process
from worldsize.plan.rank_variables import VARIABLES
from worldsize.wings.warm_start.agent.rank_differences import common_variables, doubt_about, place_of, variables_for
from worldsize.wings.warm_start.judgement.python_command import PythonCommand, python_command

WORDS = [["python", "t.py"]] * 2


def rank(number: int, cpus: tuple[int, ...] = (), **environment: str) -> Process:
    return Process((number,), ("python", "t.py"), environment, "log-%d" % number, cpus)


def pair(**environment: str) -> list[Process]:
    return [rank(number, **environment) for number in range(2)]


def read(text: str) -> PythonCommand:
    found = python_command(("bash", "-c", text))
    assert found is not None
    return found


def test_common_are_those_of_all_with_one_value() -> None:
    ranks = [rank(0, A="1", B="1", C="1"), rank(1, A="1", B="2"), rank(2, A="1", B="1", C="1", D="1")]
    assert common_variables(ranks) == {"A": "1"}
    assert common_variables(ranks[:1]) == {"A": "1", "B": "1", "C": "1"}


@pytest.mark.parametrize("name", [*sorted({each.name for each in VARIABLES}), "CUDA_VISIBLE_DEVICES", "PWD"])
def test_places_may_differ(name: str) -> None:
    if name.startswith(("OMP_PROC", "OMP_PLACES")):
        return
    assert doubt_about([rank(0, **{name: "0"}), rank(1, **{name: "1"})], WORDS) == ""
    assert doubt_about([rank(0, **{name: "0"}), rank(1)], WORDS) == ""


@pytest.mark.parametrize("name", ["OWN", "PATH", "PYTHONHASHSEED", "LD_PRELOAD", "HOME", "NCCL_DEBUG"])
def test_nothing_else_may(name: str) -> None:
    told = "its ranks differ in " + name
    assert doubt_about([rank(0, **{name: "0"}), rank(1, **{name: "1"})], WORDS) == told
    assert doubt_about([rank(0, **{name: "0"}), rank(1)], WORDS) == told
    assert doubt_about([rank(0), rank(1, **{name: "1"})], WORDS) == told
    assert doubt_about(pair(**{name: "0"}), WORDS) == ""


def test_the_first_by_name_is_told() -> None:
    assert doubt_about([rank(0, B="0", A="0"), rank(1, B="1", A="1")], WORDS).endswith("in A")


@pytest.mark.parametrize(("value", "doubt"), [("random", "PYTHONHASHSEED is random"), ("0", ""), ("42", ""), ("", "")])
def test_the_order_of_hashes(value: str, doubt: str) -> None:
    assert doubt_about(pair(PYTHONHASHSEED=value), WORDS) == doubt


def test_cpus() -> None:
    assert doubt_about([rank(0, (0, 1)), rank(1, (2, 3))], WORDS) == ""
    assert doubt_about([rank(0, (0, 1)), rank(1, (2,))], WORDS) == "its ranks have different numbers of CPUs"
    assert doubt_about([rank(0, (0,)), rank(1)], WORDS) == "its ranks have different numbers of CPUs"


@pytest.mark.parametrize("name", ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "BLIS_JC_NT"])
def test_libraries_that_bind_threads_as_they_are_loaded(name: str) -> None:
    bound = [rank(number, (number,), **{name: "true"}) for number in range(2)]
    assert doubt_about(bound, WORDS) == name + " binds threads to CPUs as libraries are loaded"
    assert doubt_about(pair(**{name: "true"}), WORDS) == ""


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        ([["python", "t.py", "1"], ["python", "t.py", "2"]], ""),
        ([["python", "t.py", "9"], ["python", "t.py", "10"]], "the words of its ranks' commands differ in length"),
        ([["python", "t.py", "ä"], ["python", "t.py", "ab"]], ""),
        ([["python", "t.py", "ä"], ["python", "t.py", "a"]], "the words of its ranks' commands differ in length"),
        ([["python", "t.py", "\udcff"], ["python", "t.py", "a"]], ""),
        (
            [["python", "t.py", "ab", "c"], ["python", "t.py", "a", "bc"]],
            "the words of its ranks' commands differ in length",
        ),
        ([["python", "t.py"], None], "the shell would split the value of a variable in the command"),
        ([None, None], "the shell would split the value of a variable in the command"),
    ],
)
def test_words(words: list[list[str] | None], doubt: str) -> None:
    assert doubt_about(pair(), words) == doubt


def test_the_process_has_what_is_common_and_what_the_command_says_of_the_first_rank() -> None:
    ranks = [rank(number, A="1", RANK=str(number), LOCAL_RANK=str(number)) for number in range(2)]
    assert variables_for(read("python t.py"), ranks) == {"A": "1"}
    assert variables_for(read('python t.py $RANK "${RANK}$NONE$A"'), ranks) == {"A": "1", "RANK": "0"}


def test_a_place_is_the_difference() -> None:
    given = {"A": "1", "RANK": "0", "ONLY": "x"}
    one = rank(1, (2, 3), A="1", RANK="1", B="2")
    assert place_of(one, ("python", "t.py", "1"), given) == {
        "variables": {"RANK": "1", "B": "2"}, "without": ["ONLY"], "words": ["python", "t.py", "1"], "cpus": [2, 3],
        "after": 0.05,
    }  # fmt: skip
    assert place_of(rank(0, RANK="0"), (), given)["after"] == 0


def test_a_process_that_takes_its_place_has_the_environment_of_its_rank() -> None:
    ranks = [rank(0, A="1", RANK="0", FIRST="x"), rank(1, A="1", RANK="1", SECOND="y")]
    given = variables_for(read("python t.py $RANK $FIRST"), ranks)
    for each in ranks:
        place = place_of(each, (), given)
        found = {**given, **place["variables"]}
        for name in place["without"]:
            del found[name]
        assert found == each.environment
