"""A case on the real Slurm cluster: what makes a run fail there, and what `worldsize why` must say of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from slurm.cluster import Flavour
from slurm.login import Login

from causes.screen import Screen, without_variable_parts
from worldsize.diagnose.signatures import documentation_of

ORDINARY = Flavour()
DOCUMENTED = (22, 5)
"""The release of Slurm of which the screens in the documentation are: others say some things in other words."""


class SlurmCase(NamedTuple):
    """A run that `provoke` starts and makes fail: it returns the run's id.

    id        the cause's
    standing  established, supported or unknown
    ranks     whose it is
    node      where it is
    confirms  what the scheduler's words in the chain hold, decoded; "" where it has none
    variant   tells apart cases of one cause, those of other computes too
    nodes     those whose agents have begun
    flavour   the cluster that it takes
    varies    who tells of it first is a matter of chance: the screen on the page is one of several
    quick     it is among those that are tried each time, not only with all
    """

    id: str
    provoke: Callable[[Login], str]
    standing: str = "established"
    ranks: tuple[int, ...] = ()
    node: int | None = None
    confirms: str = ""
    variant: str = "on Slurm"
    nodes: tuple[int, ...] = (0, 1)
    flavour: Flavour = ORDINARY
    varies: bool = False
    quick: bool = False

    simulated = section = ""
    """Nothing is: all of it is provoked."""

    @property
    def folder(self) -> str:
        """The folder of docs/causes/ with the page on which its screen stands."""
        return documentation_of(self.id).split("/")[1]

    @property
    def title(self) -> str:
        """The heading of its screen."""
        return "%s: %s" % (self.id, self.variant)


_VARIABLE = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "…"),
    (r"\b198\.1[89]\.\d+\.(\d+)", r"10.0.0.\1"),
    (r"(?<=after )\d+ (?:min(?: \d+ s)?|s)(?= of a limit)", "…"),
    (r"(?<=\b192\.0\.2\.1:)\d+", "…"),
    (r"\bStepId=17\.\d+", "StepId=17.…"),
)


def slurm_screen(login: Login, run: str) -> Screen:
    """What `why` says of a run that ends now, with nothing of it left."""
    login.ended(run, 120)
    job = login.native(run)
    text = without_variable_parts(login.ok("why", run).out, login)
    text = re.sub(r"\b(JOB|STEP|[Jj]ob|StepId=) ?%s\b" % job, lambda found: found[0].replace(job, "17"), text)
    for pattern, instead in _VARIABLE:
        text = re.sub(pattern, instead, text)
    return Screen(login.json("why", run), text)
