"""The parts of the data parallelism of one rank, as patches and guards are given them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .models import Models
    from .printed_values import PrintedValues
    from .process_group import Communicator
    from .random_streams import RandomStreams
    from .rank_state import Training


class RankParts:
    def __init__(
        self, training: Training, world: Communicator, models: Models, streams: RandomStreams, values: PrintedValues
    ) -> None:
        self.training = training
        self.world = world
        self.models = models
        self.streams = streams
        self.values = values
        self.loops: dict[Any, str] = {}

    def start_pass(self, loader: Any = None) -> None:
        """Before a pass that may train: weights that are new start equal, and draws go on as rank 0's."""
        self.models.equalise_new()
        found = [getattr(owner, "generator", None) for owner in (loader, getattr(loader, "sampler", None))]
        generators = {id(each): each for each in found if each is not None and each.device.type == "cpu"}
        self.streams.agree(self.world, list(generators.values()))
