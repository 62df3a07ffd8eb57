"""The files that a job copies to its nodes in advance, by its key `stage`, and the downloads that its variables
prevent."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from worldsize.wings.checks.script.downloads.download import Download

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OFFLINE_VARIABLES = {
    "huggingface": ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT"),
    "wandb": ("WANDB_MODE", "WANDB_BASE_URL", "WANDB_DISABLED"),
}
"""The variables that prevent downloads from the internet, by kind of download."""

PLACE_VARIABLES = {
    "huggingface": ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_DATASETS_CACHE"),
    "torch_hub": ("TORCH_HOME",),
    "pip": ("PIP_NO_INDEX", "UV_OFFLINE", "UV_NO_INDEX", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"),
}
"""The variables that name a place where an object may be, such as a cache or a server of the site, by kind of
download."""


def is_kept_offline(download: Download, variables: Collection[str]) -> bool:
    """Return whether one of the `variables` (names of environment variables), such as HF_HUB_OFFLINE, prevents this
    kind of download."""
    return any(name in variables for name in OFFLINE_VARIABLES.get(download.kind, ()))


def may_lie_elsewhere(download: Download, variables: Collection[str]) -> bool:
    """Return whether one of the `variables` (names of environment variables), such as HF_HOME, names a place where the
    downloaded object may be available without the internet."""
    return any(name in variables for name in PLACE_VARIABLES.get(download.kind, ()))


def is_staged(download: Download, stage: Mapping[str, Any]) -> bool:
    """Return whether the job's key `stage` copies the object of the download to the nodes in advance. If the object's
    name is not known, return whether the job stages any object of this kind."""
    if download.kind == "pip":
        return bool(stage.get("pip") or stage.get("uv"))
    if download.kind == "huggingface":
        names = {text.split()[0].partition("@")[0].removeprefix("models/") for text in stage.get("huggingface", ())}
        return download.name in names if download.name else bool(names)
    if download.kind == "torch_hub":
        texts = set(stage.get("torch_hub", ()))
        names = texts | {text.partition(":")[0] for text in texts if "://" not in text}
        return {download.name, download.name.partition(":")[0]} & names != set() if download.name else bool(names)
    return download.kind == "data" and bool(stage.get("data"))
