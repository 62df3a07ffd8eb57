"""The names of `azure.ai.ml.constants` that a command job needs, each loaded when it is first used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.job import AssetTypes as AssetTypes
    from worldsize.wings.python_surface.constants import DistributionType as DistributionType
    from worldsize.wings.python_surface.constants import InputOutputModes as InputOutputModes

_HOMES = {
    "AssetTypes": "jobspec.job",
    "InputOutputModes": "wings.python_surface.constants",
    "DistributionType": "wings.python_surface.constants",
}

__all__ = [*_HOMES]  # noqa: PLE0604

if not TYPE_CHECKING:  # for a type checker only the names above exist

    def __getattr__(name: str) -> object:
        from worldsize.registry import load_name

        globals()[name] = value = load_name(_HOMES, name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
