"""A case: a job that fails for one cause, and what `worldsize why` must say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from driver import Cli


class Case(NamedTuple):
    """A job of `world` ranks that each run `code` as train.py.

    id         the cause's
    code       the script
    standing   established, supported or unknown
    ranks      whose it is; None where that is not to be said
    world      nodes × ranks of each
    command    what each rank runs
    keys       further keys of the job
    simulated  who writes the line in truth, where this machine cannot provoke it: "" where it is real
    needs      what has to be there, see `conditions.py`
    environment  the virtual environment beside the tests that the ranks have; "" for the tests' own
    files      further files of the project
    sequence   starts the job, job.yml, and sees it end, where that takes more than `worldsize run`; what it returns is
               the run that is asked about, None for the latest
    variant    tells apart several cases of one cause
    section    where its screen stands, if not in the section of its cause: in that of what confirms it
    varies     what others than the cause's ranks say is a matter of chance: the screen on the page is one of several
    quick      it is among those that are tried each time, not only with all
    """

    id: str
    code: str
    standing: str = "established"
    ranks: tuple[int, ...] | None = (0,)
    world: str = "1x2"
    command: str = "python train.py"
    keys: Mapping[str, Any] = {}
    simulated: str = ""
    needs: tuple[str, ...] = ()
    environment: str = ""
    files: Mapping[str, str] = {}
    sequence: Callable[[Cli], str | None] | None = None
    variant: str = ""
    section: str = ""
    varies: bool = False
    quick: bool = False

    @property
    def title(self) -> str:
        """The heading of its screen."""
        name = self.section or self.id
        return f"{name}: {self.variant}" if self.variant else name


def said(line: str, rank: int = 0) -> str:
    """A script of which one rank writes a line and fails, while the others wait."""
    return f"""import os, sys, time

if int(os.environ["RANK"]) == {rank}:
    print({line!r}, file=sys.stderr, flush=True)
    sys.exit(1)
time.sleep(60)
"""


def raised(kind: str, text: str, rank: int = 0) -> str:
    """A script of which one rank raises a RuntimeError, or another `kind` of exception, while the others wait."""
    return f"""import os, time

if int(os.environ["RANK"]) == {rank}:
    raise {kind}({text!r})
time.sleep(60)
"""
