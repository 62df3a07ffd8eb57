"""What the head says where nodes have other versions than most."""

import time

import pytest
from tests.unit.wings.checks.nodes import brief, nodes_of

from worldsize.wings.checks.agent.judgement.versions import version_rows

TORCH = {"version": "2.13.0", "cuda": "13.0", "nccl": "2.27.3", "mpi": False}


def facts(torch="2.13.0", **changed):
    return {"python": "3.11.2", "packages": {"torch": torch, "numpy": "2.1"}, "kernel": "6.1", "locale": "C", **changed}


def rows(*given, **asked):
    return version_rows(nodes_of(*given), asked)


def test_nodes_that_are_the_same_have_one_row():
    assert brief(rows(facts(), facts(), facts(driver=None), facts())) == [
        ("", "ok", "4 nodes: python 3.11.2, torch 2.13.0, kernel 6.1")
    ]


def test_a_single_node_and_nodes_of_which_nothing_is_known_have_none():
    assert rows(facts()) == rows() == rows({}, {}) == []


def test_another_torch_is_bad_and_the_node_is_named():
    found = rows(facts(), facts(), facts(), facts(torch="2.12.1"))
    assert brief(found) == [("node3", "bad", "torch 2.12.1, the other 3 have 2.13.0")]
    assert "one environment" in found[0].hint


def test_of_a_python_that_ranks_may_not_execute_a_difference_is_a_warning():
    for asked in ({"framework": "none"}, {"framework": "pytorch"}):
        given = facts(), facts(), facts(torch="2.12.1"), facts(python="3.12.1")
        found = brief(rows(*given, **asked, python="python3", python_guessed=True))
        assert [(node, verdict) for node, verdict, _ in found] == [("node2", "warning"), ("node3", "warning")]


def test_of_two_nodes_the_head_is_the_one_to_compare_with():
    assert brief(rows(facts(), facts(torch="2.12.1"))) == [("node1", "bad", "torch 2.12.1, node0 has 2.13.0")]


def test_the_head_is_named_where_it_is_the_one_that_differs():
    assert brief(rows(facts(torch="2.12.1"), facts(), facts())) == [
        ("node0", "bad", "torch 2.12.1, the other 2 have 2.13.0")
    ]


def test_a_node_without_the_package_differs_from_those_that_have_it():
    assert brief(rows(facts(), facts(packages={"numpy": "2.1"}), facts())) == [
        ("node1", "bad", "no torch, the other 2 have 2.13.0")
    ]
    extra = facts(packages={"torch": "2.13.0", "numpy": "2.1", "mpi4py": "4.0"})
    assert brief(rows(facts(), extra, facts())) == [("node1", "warning", "mpi4py 4.0, the other 2 have none")]


@pytest.mark.parametrize(
    "fact, value, verdict",
    [
        ("python", "3.10.4", "bad"),
        ("python", "3.11.9", "warning"),
        ("kernel", "5.14", "warning"),
        ("locale", "de_DE.ISO-8859-1", "warning"),
        ("driver", "535.1", "warning"),
        ("cuda_driver", "12.2", "warning"),
        ("packages", {"torch": "2.13.0", "numpy": "1.26"}, "warning"),
        ("packages", {"torch": "2.13.0+cpu", "numpy": "2.1"}, "bad"),
        ("packages", {"torch": "2.13.0", "numpy": "2.1", "torchvision": "0.28"}, "warning"),
        ("packages", {"torch": "2.13.0", "numpy": "2.1", "nvidia-nccl-cu13": "2.27"}, "bad"),
        ("torch", {**TORCH, "nccl": "2.26.2"}, "bad"),
        ("torch", {**TORCH, "cuda": None}, "bad"),
    ],
)
def test_what_a_difference_means(fact, value, verdict):
    same = facts(driver="580.1", cuda_driver="13.0", torch=TORCH["version"])
    same["torch"] = TORCH
    found = rows(same, same, {**same, fact: value}, same)
    assert [(row.node, row.verdict) for row in found] == [("node2", verdict)]


@pytest.mark.parametrize(
    "framework, verdict",
    [
        ("pytorch", "bad"),
        (None, "bad"),
        ("deepspeed", "bad"),
        ("tensorflow", "warning"),
        ("none", "warning"),
        ([], "bad"),
    ],
)
def test_another_torch_is_bad_for_what_uses_torch(framework, verdict):
    assert [row.verdict for row in rows(facts(), facts(), facts(torch="1"), framework=framework)] == [verdict]


def test_another_python_is_a_warning_for_what_uses_none():
    assert rows(facts(), facts(), facts(python="3.9.1"), framework="mpi")[0].verdict == "warning"


def test_all_that_differs_on_a_node_is_in_one_row_and_the_worst_comes_first():
    found = rows(facts(), facts(), facts(torch="2.12.1", kernel="5.14", locale="de"))
    assert brief(found) == [
        (
            "node2",
            "bad",
            "torch 2.12.1, the other 2 have 2.13.0; kernel 5.14, the other 2 have 6.1; locale de, the other 2 have C",
        )
    ]


def test_many_differences_are_counted():
    packages = {"p%02d" % index: "1" for index in range(30)}
    found = rows(facts(packages=packages), facts(packages=packages), facts(packages=dict.fromkeys(packages, "2")))
    assert found[0].value.endswith("; 26 more")


def test_what_others_know_is_unknown_where_it_is_missing():
    late = {"kernel": "6.1"}
    found = rows(facts(), late, facts())
    assert brief(found) == [("node1", "unknown", "not known: Python, locale, packages")]
    assert brief(rows(facts(), {**late, "kernel": "5"}, facts())) == [
        ("node1", "warning", "kernel 5, the other 2 have 6.1")
    ]


def test_a_node_without_gpus_is_not_unknown_for_its_lack_of_a_driver():
    gpus = facts(driver="580.1", cuda_driver="13.0")
    assert [row.verdict for row in rows(gpus, gpus, facts())] == ["ok"]


def test_pythons_are_compared_by_what_all_nodes_know_of_them():
    short = {"kernel": "6.1", "python_minor": "3.11"}
    full = {"kernel": "6.1", "python": "3.11.2", "python_minor": "3.11"}
    assert brief(rows(full, short, full)) == [("", "ok", "3 nodes: python 3.11, kernel 6.1")]
    other = rows(full, full, {**short, "python_minor": "3.9"})
    assert brief(other) == [("node2", "bad", "python 3.9, the other 2 have 3.11")]


def test_torch_is_compared_by_itself_where_packages_are_not_listed():
    said = {"python": "3.11.2", "torch": TORCH}
    other = {"python": "3.11.2", "torch": {**TORCH, "version": "2.12.1"}}
    assert brief(rows(said, said, other)) == [("node2", "bad", "torch 2.12.1, the other 2 have 2.13.0")]


@pytest.mark.parametrize(
    "strange", [[], "x", 5, {"torch": {"a": []}}, {"torch": None}, {"\x1b[31m" * 50: "\n" * 500}, {1: 2}]
)
def test_strange_facts_never_raise(strange):
    for fact in ("packages", "python", "torch", "kernel", "driver"):
        for row in rows(facts(), facts(), facts(**{fact: strange} if fact != "torch" else {}), {fact: strange}):
            assert "\x1b" not in row.value and "\n" not in row.value and len(row.value) < 1000


def test_64_and_1000_nodes_are_compared_at_once():
    started = time.process_time()
    assert len(rows(*[facts()] * 63, facts(torch="2.12.1"))) == 1
    assert brief(rows(*[facts()] * 1000))[0][2].startswith("1000 nodes: ")
    assert len(rows(*[facts(), facts(torch="2.12.1")] * 500)) == 500
    assert time.process_time() - started < 1.0
