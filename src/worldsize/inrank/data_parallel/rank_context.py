"""What works together in one rank."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .models import Models
    from .printed_values import Values
    from .process_group import World
    from .random_streams import Streams
    from .training import Training


class Parts:
    def __init__(self, training: Training, world: World, models: Models, streams: Streams, values: Values) -> None:
        self.training = training
        self.world = world
        self.models = models
        self.streams = streams
        self.values = values
        self.loops: dict[Any, str] = {}

    def together(self, loader: Any = None) -> None:
        """Before a pass that may train: weights that are new start equal, and draws go on as rank 0's."""
        self.models.start_equal()
        found = [getattr(owner, "generator", None) for owner in (loader, getattr(loader, "sampler", None))]
        generators = {id(each): each for each in found if each is not None and each.device.type == "cpu"}
        self.streams.agree(self.world, list(generators.values()))
