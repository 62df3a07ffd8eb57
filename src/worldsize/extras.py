"""Errors for missing packages that single commands need and that an extra of worldsize installs."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.errors import ConfigError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "hpcpack": ("httpx",),
    "azure": ("httpx", "azure-identity", "azure-storage-blob"),
    "simulator": ("starlette", "uvicorn", "trustme"),
    "env": ("py-rattler", "uv"),
    "convert": ("libcst",),
    "data": ("fsspec", "adlfs"),
    "s3": ("fsspec", "s3fs"),
    "gs": ("fsspec", "gcsfs"),
    "plots": ("matplotlib",),
    "keyring": ("keyring",),
    "conformance": ("pytest",),
}
"""The extras that worldsize's commands use, and the packages that each of them installs."""


def install_hint(extra: str) -> str:
    return f"pip install 'worldsize[{extra}]'"


def missing_package_error(what: str, package: str, extra: str) -> ConfigError:
    """Return the ConfigError which states that `what` needs the Python package `package`, which the extra `extra` of
    worldsize installs. Its sentence names the extra too, since the state of a run is shown without the hint."""
    return ConfigError(f"{what} needs {package}, which is not installed (extra {extra})", None, install_hint(extra))


def require_packages(what: str, extra: str, *packages: str) -> None:
    """Import the Python packages `packages`, which `what` needs and the extra `extra` of worldsize installs. Raise
    ConfigError for the first one that is missing."""
    from importlib import import_module

    for package in packages:
        try:
            import_module(package)
        except ImportError:
            raise missing_package_error(what, package, extra) from None
