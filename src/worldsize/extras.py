"""Errors for missing packages that single commands need and that an extra of worldsize installs."""

from __future__ import annotations

from worldsize.errors import ConfigError


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
