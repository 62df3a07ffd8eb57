"""Which readings of GPUs are signs of life: series of them, by the watts and the share of memory traffic."""

from __future__ import annotations

import pytest

from worldsize.wings.hangs.judgement.gpu_signs import GpuReading, GpuSigns, is_own

SPINS = (118.0, 0.0)
"""A GPU of 400 W whose ranks wait in NCCL: NVIDIA/nccl#2428."""

TRAINS, IDLES = (362.0, 0.47), (55.0, 0.0)


def shown(signs: GpuSigns, *series: tuple[float | None, float | None], is_alive: bool = False) -> list[bool]:
    """For each reading of one GPU, whether it shows that it works."""
    return [signs.add([GpuReading(0, traffic, power)], is_alive) for power, traffic in series]


def test_a_gpu_that_works_in_silence_and_then_waits() -> None:
    signs = GpuSigns()
    assert shown(signs, IDLES, TRAINS, TRAINS, is_alive=True) == [False, True, True]
    assert shown(signs, *[TRAINS] * 240) == [True] * 240
    assert shown(signs, *[SPINS] * 20) == [False] * 20
    assert shown(signs, TRAINS) == [True]


def test_one_that_has_worked_in_silence_from_the_start() -> None:
    assert shown(GpuSigns(), IDLES, TRAINS, TRAINS, SPINS, TRAINS) == [False, True, True, False, True]


@pytest.mark.parametrize("power", [118.0, 200.0, 350.0, None])
def test_one_that_has_only_waited(power: float | None) -> None:
    """While one rank downloads data, which is a sign of life, the others wait; later all do. NCCL takes 30 to 50 % of
    the limit for that, and a GPU whose power is capped may take all that it has."""
    signs = GpuSigns()
    assert shown(signs, *[(power, 0.0)] * 5, is_alive=True) == [False] * 5
    assert shown(signs, *[(power, 0.01)] * 5) == [False] * 5


def test_power_alone_is_no_sign() -> None:
    signs = GpuSigns()
    assert not any(shown(signs, (690.0, None), (690.0, None), is_alive=True))
    assert not any(shown(signs, (690.0, None), (None, None)))


def test_traffic_is_one_without_power() -> None:
    signs = GpuSigns()
    assert shown(signs, (None, 0.5), is_alive=True) == [True]
    assert shown(signs, (None, 0.45), (None, 0.0)) == [True, False]


def test_a_capped_gpu_works_at_the_power_at_which_others_wait() -> None:
    signs = GpuSigns()
    assert shown(signs, (150.0, 0.4), is_alive=True) == [True]
    assert shown(signs, (150.0, 0.38), (118.0, 0.0)) == [True, False]


def test_a_phase_that_takes_less_is_work() -> None:
    """As an evaluation, or the generation of samples, after a training."""
    signs = GpuSigns()
    shown(signs, (620.0, 0.5), is_alive=True)
    assert shown(signs, (310.0, 0.8), (260.0, 0.2)) == [True, True]


def test_what_is_far_below_the_runs_own_work_is_none() -> None:
    signs = GpuSigns()
    shown(signs, (620.0, 0.8), is_alive=True)
    assert shown(signs, (600.0, 0.15), (120.0, 0.5)) == [False, False]


def test_a_gpu_with_little_to_do_is_not_told_from_one_that_waits() -> None:
    signs = GpuSigns()
    assert shown(signs, (75.0, 0.03), is_alive=True) == [False]
    assert shown(signs, (75.0, 0.03)) == [False]


def test_levels_rise_by_what_other_signs_confirm_alone() -> None:
    signs = GpuSigns()
    shown(signs, (100.0, 0.3), is_alive=True)
    shown(signs, (690.0, 0.99))
    assert shown(signs, (100.0, 0.1)) == [True]
    shown(signs, (None, 0.99), is_alive=True)
    assert shown(signs, (100.0, 0.1)) == [False]


def test_one_gpu_that_works_is_enough_and_each_has_levels_of_its_own() -> None:
    signs = GpuSigns()
    assert signs.add([GpuReading(0, 0.8, 600.0), GpuReading(1, 0.12, 90.0)], True)
    assert signs.add([GpuReading(0, 0.0, 120.0), GpuReading(1, 0.12, 90.0)], False)
    assert not signs.add([GpuReading(0, 0.12, 120.0), GpuReading(1, 0.0, 90.0)], False)
    assert not signs.add([], False)


def test_gpus_are_idle_where_all_have_worked_before() -> None:
    signs = GpuSigns()
    assert signs.are_idle is None
    for reading, alive, idle in (
        ([GpuReading(0, 0.5, 600.0), GpuReading(1, 0.03, 90.0)], True, False),
        ([GpuReading(0, 0.0, 200.0)], False, True),
        ([GpuReading(0, 0.03, 200.0)], False, False),
        ([GpuReading(0, None, 200.0)], False, False),
        ([GpuReading(0, 0.0, 200.0), GpuReading(1, 0.0, 80.0)], False, False),
        ([GpuReading(0, 0.01, None)], False, True),
        ([], False, True),
    ):
        signs.add(reading, alive)
        assert signs.are_idle is idle, reading


@pytest.mark.parametrize(
    ("pids", "own", "is_alone"),
    [({7}, {5, 7, 8}, True), ({7, 8}, {7, 8}, True), ({7, 9}, {7, 8}, False), ({9}, {7}, False), (set(), {7}, False)],
)
def test_a_gpu_is_the_runs_where_its_ranks_alone_compute(pids: set[int], own: set[int], is_alone: bool) -> None:
    assert is_own(pids, own) is is_alone
