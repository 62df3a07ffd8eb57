"""Requirements of an HPC Pack cluster that this machine and account must meet, checked without contacting it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from worldsize.compute.base import CheckResult
from worldsize.errors import ConfigError
from worldsize.extras import missing_package_error
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.trust.procfs import withheld_password
from worldsize.wings.hpcpack.head.credentials import VARIABLE
from worldsize.wings.hpcpack.settings import head_access, require_mounted, share_of


def check_access(settings: ComputeSettings, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield what is missing to use the cluster: the package, settings, the share on this machine; and a notice if the
    password is not in the environment. The keyring is not read, since it may ask."""
    if find_spec("httpx") is None:
        yield _result(missing_package_error("HPC Pack", "httpx", "hpcpack"))
    place = f"compute.{settings.name}."
    for require in (lambda: head_access(settings), lambda: require_mounted(share_of(settings.options), place)):
        try:
            require()
        except ConfigError as error:
            yield _result(error)
    if not withheld_password(environ):
        where = "a keyring may have it, or a prompt" if find_spec("keyring") else "a prompt asks for it at a terminal"
        yield CheckResult("notice", f"the password is not in {VARIABLE}: {where}")


def _result(error: ConfigError) -> CheckResult:
    return CheckResult("error", error.what, error.where, error.hint)
