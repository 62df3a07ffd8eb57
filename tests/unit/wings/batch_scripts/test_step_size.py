"""How many tasks srun starts, and where: as real srun of Slurm 22.05 answered, asked on a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz

from worldsize.wings.batch_scripts.agent.option_tables import read_options, srun_table
from worldsize.wings.batch_scripts.agent.step_size import (
    Allocation,
    StepSize,
    format_counts,
    step_size,
    task_node_indexes,
)

TWO = Allocation(("node1", "node2"), 4)
SAID = {"SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "2"}
UNSAID = {"SLURM_NNODES": "2"}


def size(words: str, environ: dict[str, str]) -> StepSize:
    read = read_options(words.split(), srun_table())
    return step_size({option.name: option.value for option in read.options}, environ, TWO)


@pytest.mark.parametrize(
    ("words", "environ", "nodes", "tasks"),
    [
        ("", SAID, (0, 1), (2, 2)),
        ("-n1", SAID, (0,), (1,)),
        ("-N1 -n1", SAID, (0,), (1,)),
        ("-N2", SAID, (0, 1), (2, 2)),
        ("-N1", SAID, (0,), (4,)),
        ("--ntasks-per-node=1", SAID, (0, 1), (2, 2)),
        ("-n 2 --ntasks-per-node=1", SAID, (0, 1), (1, 1)),
        ("-w node2 -n1", SAID, (1,), (1,)),
        ("-w node2", SAID, (0, 1), (2, 2)),
        ("-n 3", SAID, (0, 1), (2, 1)),
        ("-x node1 -n1", SAID, (1,), (1,)),
        ("-r1 -n1", SAID, (1,), (1,)),
        ("", UNSAID, (0, 1), (1, 1)),
        ("-N1", UNSAID, (0,), (1,)),
        ("--ntasks-per-node=3", UNSAID, (0, 1), (3, 3)),
        ("-w node2", UNSAID, (0, 1), (1, 1)),
    ],
)
def test_like_srun(words: str, environ: dict[str, str], nodes: tuple[int, ...], tasks: tuple[int, ...]) -> None:
    found = size(words, environ)
    assert (found.nodes, found.tasks) == (nodes, tasks)


def test_warnings_are_sruns() -> None:
    assert size("-n1", SAID).warnings == ("Warning: can't run 1 processes on 2 nodes, setting nnodes to 1",)
    assert "can't honor --ntasks-per-node set to 1" in size("--ntasks-per-node=1", SAID).warnings[0]
    assert size("", SAID).warnings == size("-N1 -n1", SAID).warnings == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-N 3 -n3", "Only allocated 2 nodes asked for 3"),
        ("-n none", "Invalid numeric value"),
        ("-w node7 -n1", "not available"),
        ("-x node[1-2] -n1", "Only allocated 0 nodes"),
    ],
)
def test_what_srun_refuses(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        size(words, SAID)


@pytest.mark.parametrize(
    ("distribution", "found"),
    [(None, [0, 0, 0, 1, 1]), ("block", [0, 0, 0, 1, 1]), ("cyclic", [0, 1, 0, 1, 0]), ("plane=2", [0, 0, 1, 1, 0]),
     ("*:block", [0, 0, 0, 1, 1]), ("cyclic:cyclic,pack", [0, 1, 0, 1, 0])],
)  # fmt: skip
def test_which_task_is_where(distribution: str | None, found: list[int]) -> None:
    assert task_node_indexes(StepSize((0, 1), (3, 2)), distribution) == found


@fuzz
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from([None, "cyclic", "plane=3", "block"]))
def test_every_task_has_one_place(tasks: list[int], distribution: str | None) -> None:
    found = task_node_indexes(StepSize(tuple(range(len(tasks))), tuple(tasks)), distribution)
    assert [found.count(place) for place in range(len(tasks))] == tasks


@pytest.mark.parametrize(("counts", "text"), [((2, 2, 2, 1), "2(x3),1"), ((1,), "1"), ((3, 1, 3), "3,1,3")])
def test_counts_as_slurm_writes_them(counts: tuple[int, ...], text: str) -> None:
    assert format_counts(counts) == text
