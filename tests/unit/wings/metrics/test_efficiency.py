"""How well a run used what it held: tables of situations, and what is said of each, or not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.wings.metrics.agent.records import GpuFacts, GpuUse, NodeUse, SamplesHeader
from worldsize.wings.metrics.efficiency import Held, NodeRecord, Times, measure_efficiency
from worldsize.wings.metrics.efficiency_words import efficiency_text, efficiency_values

GIB = 1 << 30
H100 = 80 * GIB
EMPTY = GpuUse(0, 0.0, 600 << 20, 60.0)
BUSY = GpuUse(0, 0.61, 40 * GIB, 212.0)
OWN = BUSY._replace(own=True)
TIMES = Times(1000.0, 1120.0)


def node(
    rank: int = 0, gpus: tuple[GpuUse, ...] = (), uuids: str = "", limit: int | None = 256 * GIB, **values: Any
) -> NodeRecord:
    """One of 64 cores and 256 GiB, sampled for 110 s; `values` of its header or of its use."""
    facts = tuple(GpuFacts(at, "GPU-%s-%d" % (uuids or rank, at), "H100", H100) for at in range(len(gpus)))
    uses = tuple(gpu._replace(gpu=at) for at, gpu in enumerate(gpus))
    header = SamplesHeader(1, 1000.0, "h%d" % rank, rank, 64, limit, facts)
    use = NodeUse(110.0, 20, 847.0, 31 * GIB, None, None, uses)
    return NodeRecord(
        header._replace(**{k: v for k, v in values.items() if k in ("host", "cores")}),
        use._replace(**{k: v for k, v in values.items() if k in use._fields}),
    )


def said(held: Held, *records: NodeRecord, times: Times = TIMES, attempt: int = 0) -> list[str]:
    found = measure_efficiency(held, times, records)
    return efficiency_text(found, attempt) if found else []


CPUS = "7.7 of 64 cores used; highest memory 31 GiB of 256 GiB"


@pytest.mark.parametrize(
    ("gpus", "line"),
    [
        ((), CPUS),
        ((BUSY,), "1 GPU 61 % busy, 212 W"),
        ((BUSY, BUSY), "2 GPUs 61 % busy, 212 W on average"),
        ((BUSY, BUSY._replace(busy=0.21, power=100.0)), "2 GPUs 41 % busy (21 to 61 %), 156 W on average"),
        ((BUSY, BUSY, EMPTY, EMPTY), "2 of 4 GPUs unused; the others 61 % busy, 212 W on average"),
        ((EMPTY, BUSY), "1 of 2 GPUs unused; the other 61 % busy, 212 W"),
        ((EMPTY,), "the GPU was not used; " + CPUS),
        ((EMPTY, EMPTY), "none of 2 GPUs used; " + CPUS),
        ((BUSY._replace(power=None),), "1 GPU 61 % busy"),
        ((BUSY._replace(power=None), BUSY), "2 GPUs 61 % busy"),
        # it held memory, and was never seen busy: nobody can call it unused
        ((BUSY._replace(busy=0.0),), "1 GPU 0 % busy, 212 W"),
        ((EMPTY._replace(busy=0.004),), "1 GPU 0.4 % busy, 60 W"),
        # one GPU of which NVML tells nothing, such as a part of one (MIG)
        ((BUSY._replace(busy=None),), CPUS),
        ((EMPTY, BUSY._replace(busy=None)), CPUS),
        ((EMPTY._replace(memory=None), BUSY), CPUS),
        # nonsense
        ((BUSY._replace(busy=7.0),), CPUS),
        ((BUSY._replace(busy=-1.0),), CPUS),
        ((BUSY._replace(memory=-1),), CPUS),
    ],
)
def test_gpus_that_a_scheduler_gave(gpus: tuple[GpuUse, ...], line: str) -> None:
    assert said(Held(1, len(gpus) or None), node(gpus=gpus)) == [line]


@pytest.mark.parametrize(
    ("gpus", "line"),
    [
        ((OWN,), "1 GPU 61 % busy, 212 W"),
        ((OWN, EMPTY), "1 of 2 GPUs unused; the other 61 % busy, 212 W"),
        ((BUSY,), CPUS),
        ((BUSY._replace(own=False), EMPTY), "1 of 2 GPUs unused; " + CPUS),
        ((BUSY._replace(own=False), OWN), CPUS),
        ((EMPTY, EMPTY), "none of 2 GPUs used; " + CPUS),
        ((EMPTY._replace(own=True),), "1 GPU 0 % busy, 60 W"),
    ],
)
def test_of_gpus_that_others_may_use_only_what_is_certain_is_said(gpus: tuple[GpuUse, ...], line: str) -> None:
    assert said(Held(1, None, True), node(gpus=gpus)) == [line]


def test_gpus_that_a_scheduler_did_not_give_are_left_out() -> None:
    """Where nothing keeps a job to its own GPUs, its agents see all of the node's."""
    assert said(Held(1, None), node(gpus=(EMPTY, EMPTY))) == [CPUS]
    assert said(Held(1, 0), node(gpus=(EMPTY, EMPTY))) == [CPUS]
    assert said(Held(1, 1), node(gpus=(EMPTY, BUSY))) == [CPUS]


def test_of_ranks_that_no_agent_found_only_gpus_and_the_start_are_told() -> None:
    """Slurm starts the ranks of `launcher: srun`, below no agent."""
    unknown: dict[str, Any] = {"cpu": None, "memory": None}
    assert said(Held(2), *(node(rank, **unknown) for rank in range(2))) == []
    assert said(Held(2), node(0), node(1, **unknown)) == []
    gpus = (BUSY, EMPTY)
    assert said(Held(1, 2), node(gpus=gpus, **unknown)) == ["1 of 2 GPUs unused; the other 61 % busy, 212 W"]


def test_gpus_of_several_nodes() -> None:
    pair = [node(rank, (BUSY, BUSY, EMPTY, EMPTY)) for rank in range(2)]
    assert said(Held(2, 4), *pair) == ["4 of 8 GPUs unused (2 on each node); the others 61 % busy, 212 W on average"]
    uneven = [node(0, (BUSY, BUSY)), node(1, (BUSY, EMPTY))]
    assert said(Held(2, 2), *uneven) == ["1 of 4 GPUs unused; the others 61 % busy, 212 W on average"]


def test_a_gpu_that_virtual_nodes_share_counts_once() -> None:
    records = [node(rank, (gpu, EMPTY), uuids="GPU", host="h") for rank, gpu in enumerate([OWN, BUSY])]
    found = said(Held(2, None, True), *records)
    assert found == ["1 of 2 GPUs unused; the other 61 % busy, 212 W"]
    assert said(Held(2, 2), *records) == ["15 cores used; highest memory 31 GiB on node 0"], (
        "two nodes cannot share one"
    )


def test_gpus_without_a_name_cannot_be_counted() -> None:
    record = node(gpus=(EMPTY, EMPTY))
    nameless = record.header._replace(gpus=tuple(gpu._replace(uuid="") for gpu in record.header.gpus))
    assert said(Held(1, 2), record._replace(header=nameless)) == [CPUS]
    assert said(Held(1, 2), record._replace(use=record.use._replace(gpus=()))) == [CPUS], "nor those without samples"
    twice = (record.use.gpus[0], record.use.gpus[0])
    assert said(Held(1, 2), record._replace(use=record.use._replace(gpus=twice))) == [CPUS]


def test_little_else_is_said_where_gpus_work_unless_it_runs_short() -> None:
    short = node(gpus=(BUSY,), cpu=110 * 60.0, memory=240 * GIB)
    assert said(Held(1, 1), short) == [
        "1 GPU 61 % busy, 212 W; 60 of 64 cores used; highest memory 240 GiB of 256 GiB",
    ]


@pytest.mark.parametrize(
    ("held", "records", "line"),
    [
        (Held(1), [node(cpu=0.0)], "0.0 of 64 cores used; highest memory 31 GiB of 256 GiB"),
        (Held(1), [node(cores=1, cpu=55.0)], "0.5 of 1 core used; highest memory 31 GiB of 256 GiB"),
        (Held(1), [node(cores=8, cpu=900.0)], "8.0 of 8 cores used; highest memory 31 GiB of 256 GiB"),
        (Held(1), [node(cores=4, cpu=847.0)], "highest memory 31 GiB of 256 GiB"),  # more than there are: unsure
        (Held(1), [node(cores=0)], "7.7 cores used; highest memory 31 GiB of 256 GiB"),
        (Held(1), [node(cores=0, cpu=1e60)], "highest memory 31 GiB of 256 GiB"),
        (Held(1), [node(memory=512 << 20, limit=None)], "7.7 of 64 cores used; highest memory 512 MiB"),
        (Held(2), [node(0), node(1)], "15 of 128 cores used; highest memory 31 GiB of 256 GiB on node 0"),
        (Held(2), [node(0), node(1, host="h0")], "15 cores used; highest memory 31 GiB on node 0"),
        (Held(2, None, True), [node(0), node(1)], "15 of 64 cores used; highest memory 31 GiB on node 0"),
    ],
)
def test_cpus_and_memory(held: Held, records: list[NodeRecord], line: str) -> None:
    assert said(held, *records) == [line]


def test_the_node_that_came_closest_to_its_limit() -> None:
    small = node(1, limit=16 * GIB, memory=15 * GIB)
    assert said(Held(2), node(0), small)[0].endswith("highest memory 15 GiB of 16 GiB on node 1")
    over = small._replace(use=small.use._replace(memory=17 * GIB))
    assert said(Held(2), node(0), over) == ["15 of 128 cores used"], "ranks share pages, which each counts"


@pytest.mark.parametrize(
    ("times", "first_busy", "line"),
    [
        (TIMES, None, None),
        (TIMES._replace(ranks=1031.0), None, "31 s of 120 s before the ranks began"),
        (TIMES._replace(ranks=1003.0), None, None),  # too little to be worth a line
        (TIMES._replace(ranks=1010.0), 30.0, "40 s of 120 s before a GPU was busy"),
        (TIMES._replace(ranks=1001.0), 1.5, None),
        (TIMES._replace(logged=(1031.0, 1032.0)), None, "31 s of 120 s before the first logged step"),
        (TIMES._replace(ranks=1010.0, logged=(1031.0, 1032.0)), 30.0, "31 s of 120 s before the first logged step"),
        # it logs once in a while: the first time is long after the first step
        (TIMES._replace(ranks=1010.0, logged=(1040.0, 1080.0)), None, "10 s of 120 s before the ranks began"),
        # clocks that disagree
        (TIMES._replace(logged=(900.0, 901.0)), None, None),
        (TIMES._replace(logged=(1130.0, 1131.0)), None, None),
        (TIMES._replace(logged=(1031.0, 1030.0)), None, None),
        (TIMES._replace(ranks=990.0), 5.0, None),
        (TIMES._replace(ranks=1100.0), 50.0, "100 s of 120 s before the ranks began"),
        (TIMES._replace(ranks=1010.0), -5.0, None),
    ],
)
def test_the_start(times: Times, first_busy: float | None, line: str | None) -> None:
    found = said(Held(1, 1), node(gpus=(BUSY,), first_busy=first_busy), times=times)
    assert found == ["1 GPU 61 % busy, 212 W", *filter(None, [line])]


@pytest.mark.parametrize(
    ("took", "start", "line"),
    [
        (599.9, 59.9, "59 s of 599 s before the ranks began"),
        (600.0, 60.0, "1 min of 10 min before the ranks began"),
        (7200.0, 400.0, "6 min of 120 min before the ranks began"),
    ],
)
def test_long_times_are_in_minutes(took: float, start: float, line: str) -> None:
    assert said(Held(1), node(), times=Times(0.0, took, start))[1] == line


def test_a_gpu_that_others_kept_busy_tells_nothing_of_the_start() -> None:
    record = node(gpus=(BUSY,), first_busy=30.0)
    assert (
        said(Held(1, None, True), record, times=TIMES._replace(ranks=1010.0))[1]
        == "10 s of 120 s before the ranks began"
    )


def test_nodes_whose_samples_are_missing() -> None:
    held, times = Held(4, 1), TIMES._replace(ranks=1020.0)
    records = [node(rank, (BUSY,), first_busy=50.0) for rank in range(4)]
    assert said(held, *records, times=times)[1] == "70 s of 120 s before a GPU was busy"
    assert said(held, *records[1:], times=times) == [
        "3 of 4 nodes: 3 GPUs 61 % busy, 212 W on average",
        "3 of 4 nodes: 20 s of 120 s before the ranks began",
    ]
    assert said(held, *records[:2])[0].startswith("2 of 4 nodes: ")
    assert said(held, records[0]) == said(held) == []
    assert said(Held(1, 1), *records) == [], "more nodes than the run has"


@pytest.mark.parametrize(
    "values", [{"samples": 4}, {"seconds": 0.0}, {"seconds": 500.0}, {"cpu": -1.0}, {"seconds": -3.0}]
)
def test_a_node_that_was_hardly_sampled_or_tells_nonsense_is_not_known(values: dict[str, Any]) -> None:
    assert said(Held(1), node(**values)) == []


def test_a_later_attempt_is_named() -> None:
    assert said(Held(1, 1), node(gpus=(BUSY,)), attempt=2) == ["attempt 2: 1 GPU 61 % busy, 212 W"]
    two = said(Held(2, 1), node(gpus=(BUSY,)), attempt=1)
    assert two == ["attempt 1, 1 of 2 nodes: 1 GPU 61 % busy, 212 W"]


def test_programs_get_numbers() -> None:
    times = TIMES._replace(ranks=1031.0)
    found = measure_efficiency(Held(1, 2), times, [node(gpus=(BUSY, EMPTY))])
    assert found is not None
    assert efficiency_values(found, 1) == {
        "attempt": 1,
        "seconds": 120.0,
        "nodes": 1,
        "known": 1,
        "starting": {"seconds": 31.0, "until": "ranks"},
        "gpus": {
            "gpus": 2,
            "unused": 1,
            "unused_on_each": None,
            "busy": 0.61,
            "power": 212.0,
            "least": 0.61,
            "most": 0.61,
        },
        "cpu": {"used": 7.7, "cores": 64},
        "memory": {"highest": 31 * GIB, "of": 256 * GIB, "node": 0},
        "text": efficiency_text(found, 1),
    }
    bare = measure_efficiency(Held(1), TIMES, [node()])
    assert bare is not None and efficiency_values(bare, 0)["gpus"] is efficiency_values(bare, 0)["starting"] is None


numbers = st.floats(-(2.0**62), 2.0**62) | st.floats(-1.0, 200.0)
counts = st.integers(-(2**62), 2**62) | st.integers(-1, 100)
use_of_gpus = st.builds(
    GpuUse, st.integers(0, 3), st.none() | numbers, st.none() | counts, st.none() | numbers, st.none() | st.booleans()
)
facts_of_gpus = st.builds(GpuFacts, st.integers(0, 3), st.sampled_from(["", "a", "b", "c"]), st.text(), st.none())
headers = st.builds(
    SamplesHeader, st.just(1), numbers, st.sampled_from("ab"), counts, counts, st.none() | counts,
    st.lists(facts_of_gpus, max_size=4).map(tuple),
)  # fmt: skip
uses = st.builds(
    NodeUse, st.just(110.0) | numbers, st.just(20) | counts, numbers, counts, st.none(), st.none(),
    st.lists(use_of_gpus, max_size=4).map(tuple), st.none() | numbers,
)  # fmt: skip
times_of = st.just(Times(0.0, 120.0, 10.0, (30.0, 31.0))) | st.builds(
    Times, st.just(0.0), st.just(120.0) | numbers, st.none() | numbers, st.none() | st.tuples(numbers, numbers)
)


@settings(max_examples=cases(25), deadline=None)
@given(
    st.builds(Held, st.integers(0, 4), st.none() | st.integers(0, 4), st.booleans()),
    times_of,
    st.lists(st.builds(NodeRecord, headers, uses), max_size=4),
)
def test_whatever_files_say_there_are_two_lines_at_most(held: Held, times: Times, records: list[NodeRecord]) -> None:
    found = measure_efficiency(held, times, records)
    if found is None:
        return
    lines = efficiency_text(found, 3)
    assert len(lines) <= 2 and all(len(line) <= 300 and "\n" not in line for line in lines)
    assert found.starting is None or 0.0 <= found.starting.seconds <= found.seconds
    gpus = found.gpus
    assert gpus is None or (0 <= gpus.unused <= gpus.gpus and (gpus.busy is None or 0.0 <= gpus.busy <= 1.0))
    assert found.cpu is None or found.cpu.cores is None or 0.0 <= found.cpu.used <= found.cpu.cores
    assert found.memory is None or found.memory.of is None or 0 <= found.memory.highest <= found.memory.of
