"""Packages that single commands need and that an extra of worldsize brings: the sentence where one is missing."""

from __future__ import annotations

from worldsize.errors import ConfigError


def install_hint(extra: str) -> str:
    return f"pip install 'worldsize[{extra}]'"


def missing_package_error(what: str, package: str, extra: str) -> ConfigError:
    """`what` cannot be done without the package. The sentence names the extra, too: where the state of a run is shown,
    it stands without the hint."""
    return ConfigError(f"{what} needs {package}, which is not installed (extra {extra})", None, install_hint(extra))


def require_packages(what: str, extra: str, *packages: str) -> None:
    """Imports them. ConfigError for the first that is missing."""
    from importlib import import_module

    for package in packages:
        try:
            import_module(package)
        except ImportError:
            raise missing_package_error(what, package, extra) from None
