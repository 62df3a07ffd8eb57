"""What every one of the small trainings knows: its rank, which rank is to hang and when, and how it tells of itself.

In the directory HANG_MARKS each rank leaves `rank-N`, and the process that is about to hang `hangs-N`; both hold a pid.
"""

from __future__ import annotations

import argparse
import os


def _variable(*names: str) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), 0)


RANK = _variable("RANK", "OMPI_COMM_WORLD_RANK")
WORLD = _variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE") or 1
LAST = WORLD - 1

_parser = argparse.ArgumentParser()
_parser.add_argument("--rank", type=int, default=1, help="the one that hangs, or is slow")
_parser.add_argument("--at", type=int, default=3, help="the step at which it hangs")
_parser.add_argument("--steps", type=int, default=100)
_parser.add_argument("--quiet", action="store_true", help="no line is written")
_parser.add_argument("--limit", type=float, default=2, metavar="SECONDS", help="of whoever watches")
_parser.add_argument("--times", type=float, default=0.6, help="for how many times the limit a healthy program is slow")
_parser.add_argument("--seed", type=int, default=0)
_parser.add_argument("--phase", default="sleeping", help="what a healthy program does while it is slow")
_parser.add_argument("--workers", type=int, default=0, help="of the data loader")
words = _parser.parse_args()
CULPRIT: int = words.rank
AT: int = words.at
STEPS: int = words.steps


def is_culprit() -> bool:
    return RANK == CULPRIT


is_slow = is_culprit


def hangs(step: float) -> bool:
    """Whether this is the rank, and this the step."""
    return RANK == CULPRIT and step == AT


def say(text: str) -> None:
    if not words.quiet:
        print(text, flush=True)


def _mark(name: str) -> None:
    folder = os.environ.get("HANG_MARKS")
    if folder is not None:
        path = os.path.join(folder, "%s-%d" % (name, RANK))
        with open(path + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(path + ".part", path)


def about_to_hang() -> None:
    """Tells that the next line of this process is the one that does not end."""
    _mark("hangs")


def begin() -> None:
    """Tells which process the rank is."""
    _mark("rank")
