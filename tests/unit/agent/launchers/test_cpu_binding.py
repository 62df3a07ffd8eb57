"""CPUs shared out among a node's ranks: properties of the shares, and what is read of a machine."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.launchers.cpu_binding import CpuLocation, equal_cpu_shares, own_cpu_shares, read_cpu_locations


def machine(sockets: int, cores: int, threads: int = 2, numa_per_socket: int = 1) -> dict[int, CpuLocation]:
    """As Linux numbers them: the first thread of every core, then the second ones; cores go through the sockets."""
    total = sockets * cores
    per_numa = cores // numa_per_socket
    return {
        thread * total + core: CpuLocation(core // per_numa, core // cores, core)
        for thread in range(threads)
        for core in range(total)
    }


@pytest.mark.parametrize(
    ("places", "ranks", "shares"),
    [
        (machine(1, 4, 1), 2, [(0, 1), (2, 3)]),
        (machine(1, 4, 2), 4, [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (machine(2, 2, 2), 2, [(0, 4, 1, 5), (2, 6, 3, 7)]),
        (machine(1, 2, 2), 3, [(0,), (2,), (1,)]),
        (machine(1, 2, 2), 4, [(0,), (2,), (1,), (3,)]),
        (machine(2, 5, 1), 4, [(0, 1), (2, 3), (5, 6), (7, 8)]),
        (machine(1, 1, 1), 2, []),
        ({}, 1, []),
    ],
    ids=["plain", "cores", "sockets", "threads where cores are few", "each thread", "no share over two sockets",
         "too few", "none"],
)  # fmt: skip
def test_shares(places, ranks, shares):
    assert list(equal_cpu_shares(places, ranks)) == shares


@st.composite
def parts(draw):
    """Some CPUs of a machine, as a scheduler may leave them to us, and a number of ranks."""
    whole = machine(draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 6])), draw(st.integers(1, 3)), 2)
    kept = draw(st.sets(st.sampled_from(sorted(whole)), min_size=1))
    return {cpu: whole[cpu] for cpu in kept}, draw(st.integers(1, 12))


@given(parts())
def test_shares_are_disjoint_equal_and_of_whole_cores_where_there_are_enough(part):
    places, ranks = part
    shares = equal_cpu_shares(places, ranks)
    if len(places) < ranks:
        assert shares == ()
        return
    flat = [cpu for share in shares for cpu in share]
    assert len(shares) == ranks and len(set(flat)) == len(flat) and set(flat) <= set(places)
    cores = [{places[cpu] for cpu in share} for share in shares]
    if len(set(places.values())) >= ranks:
        assert len({len(each) for each in cores}) == 1
        for share, own in zip(shares, cores, strict=True):
            assert set(share) == {cpu for cpu in places if places[cpu] in own}, "whole cores"
    else:
        assert len({len(share) for share in shares}) == 1
    order = [places[cpu] for cpu in flat]
    assert order == sorted(order), "neighbours, and rank after rank"


def tree(root, files: dict[str, str]) -> str:
    for path, text in files.items():
        os.makedirs(os.path.dirname(root / path), exist_ok=True)
        (root / path).write_text(text + "\n")
    return str(root)


def test_a_machine_is_read(tmp_path):
    files = {"node/node0/cpulist": "0,2,4,6", "node/node1/cpulist": "1,3,5,7", "node/possible": "0-1"}
    for cpu in range(8):
        files["cpu/cpu%d/topology/physical_package_id" % cpu] = str(cpu % 2)
        files["cpu/cpu%d/topology/thread_siblings_list" % cpu] = "%d,%d" % (cpu % 4, cpu % 4 + 4)
    system = tree(tmp_path, files)
    assert read_cpu_locations([1, 6], system) == {1: CpuLocation(1, 1, 1), 6: CpuLocation(0, 0, 2)}
    assert equal_cpu_shares(read_cpu_locations(range(8), system), 2) == ((0, 4, 2, 6), (1, 5, 3, 7))


def test_siblings_may_be_a_range(tmp_path):
    siblings = {"cpu/cpu%d/topology/thread_siblings_list" % cpu: "0-1" if cpu < 2 else "2-3" for cpu in range(4)}
    assert equal_cpu_shares(read_cpu_locations(range(4), tree(tmp_path, siblings)), 2) == ((0, 1), (2, 3))


@pytest.mark.parametrize("files", [{}, {"node/node0/cpulist": "nonsense"}, {"cpu/cpu0/topology/core_id": "x"}])
def test_without_a_word_of_the_kernel_the_numbers_are_the_order(tmp_path, files):
    assert equal_cpu_shares(read_cpu_locations([9, 3, 5, 4], tree(tmp_path, files)), 2) == ((3, 4), (5, 9))


def test_this_machine():
    cpus = os.sched_getaffinity(0)
    shares = own_cpu_shares(1)
    assert {cpu for share in shares for cpu in share} == cpus
    assert own_cpu_shares(len(cpus) + 1) == ()
