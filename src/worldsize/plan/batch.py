"""A batch script in place of a command for every rank: what the node needs that runs it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.plan.shape import tuple_of
from worldsize.plan.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Batch(NamedTuple):
    """The first node runs the script once; the script's `srun` starts the ranks.

    hosts      the names of the virtual nodes; none inside a real allocation, whose environment is left alone
    variables  what sbatch would set for the script, on virtual nodes
    cpus       of each virtual node: steps that run at the same time share them
    indices    the job array's; none for a script that is no array
    """

    hosts: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    cpus: int = 1
    indices: tuple[int, ...] = ()

    @property
    def virtual(self) -> bool:
        return bool(self.hosts)

    @classmethod
    def from_json(cls, value: Any) -> Batch | None:
        if value is None:
            return None
        batch = tuple_of(cls, value)
        return batch._replace(hosts=tuple(batch.hosts), indices=tuple(batch.indices))
