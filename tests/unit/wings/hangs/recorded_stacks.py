"""What py-spy 0.4.3 and faulthandler said of real ranks of PyTorch 2.13, and stacks made of it."""

from __future__ import annotations

from pathlib import Path

from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks, ThreadStack, ThreadWork, parse_py_spy

RECORDINGS = Path(__file__).parent / "recordings"


def recorded_threads(name: str) -> tuple[ThreadStack, ...]:
    return parse_py_spy((RECORDINGS / (name + ".json")).read_bytes())


def recorded_rank(name: str, rank: int = 0, **fields: object) -> RankStacks:
    """One rank with the stacks of a recording."""
    stacks = RankStacks(rank, 100 + rank, 1000.0, "py-spy", recorded_threads(name), "S")
    return stacks._replace(**fields)  # type: ignore[arg-type]


def frames_of(*frames: tuple[str, str, int] | tuple[str, str, int, str]) -> tuple[Frame, ...]:
    return tuple(Frame(*each) for each in frames)


def thread_of(*frames: tuple[str, str, int] | tuple[str, str, int, str], active: bool | None = False) -> ThreadStack:
    return ThreadStack("MainThread", frames_of(*frames), active, False, True)


def rank_of_frames(rank: int, *frames: tuple[str, str, int], **fields: object) -> RankStacks:
    stacks = RankStacks(rank, 100 + rank, 1000.0, "py-spy", (thread_of(*frames),) if frames else (), "S")
    return stacks._replace(**fields)  # type: ignore[arg-type]


def work_of(ticks: int, number: int = 100) -> ThreadWork:
    return ThreadWork(number, "python3", "S", ticks)
