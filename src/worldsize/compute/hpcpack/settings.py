"""Which head node, and as whom: read from a compute's table, and kept in handles without its password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.compute.hpcpack.share import Share, share_of
from worldsize.errors import ConfigError
from worldsize.spec.config import Compute as Settings
from worldsize.spec.hpcpackkeys import HEAD

_BASE = "/hpc"


class Access(NamedTuple):
    """How the head node is reached.

    url         as configured; `base` is what requests begin with
    ca_file     certificates that the head's is verified with; None: those that this machine trusts
    verify      whether it is verified at all
    as_user     on whose behalf an administrator acts
    generation  "2016" or "2019": how nodes are asked for; None: as it turns out
    """

    url: str
    user: str
    ca_file: str | None = None
    verify: bool = True
    as_user: str | None = None
    generation: str | None = None

    @property
    def base(self) -> str:
        plain = self.url.rstrip("/")
        return plain if "/" in plain.partition("://")[2] else plain + _BASE

    @property
    def owner(self) -> str:
        """Whose jobs ours are."""
        return self.as_user or self.user


def access_of(settings: Settings) -> Access:
    """ConfigError for a table that does not say enough."""
    said = settings.options
    for key, hint in (("url", "https://HEAD"), ("user", "DOMAIN\\\\name")):
        if not said.get(key):
            what = "compute %s does not say `%s`" % (settings.name, key)
            raise ConfigError(what, "compute.%s.%s" % (settings.name, key), '%s = "%s"' % (key, hint))
    if not said["url"].startswith("https://"):
        what = "%s is no https address: the password would travel in the clear" % said["url"]
        raise ConfigError(what, "compute.%s.url" % settings.name, 'url = "https://HEAD"')
    return Access(**{name: said[name] for name in Access._fields if name in said})


def in_handle(access: Access, share: Share | None) -> dict[str, Any]:
    """What a handle keeps, so that no configuration is needed to look at a run."""
    return {**access._asdict(), "share": share._asdict() if share else None}


def of_handle(handle: Mapping[str, Any]) -> tuple[Access, Share | None]:
    access = Access(**{name: handle[name] for name in Access._fields if name in handle})
    share = handle.get("share")
    return access, Share(**share) if share else None


def as_settings(handle: Mapping[str, Any], name: str) -> Settings:
    """A compute's table as far as a handle tells it."""
    access, share = of_handle(handle)
    options = {key: value for key, value in access._asdict().items() if value is not None}
    if share is not None:
        options["share"] = {key: value for key, value in share._asdict().items() if value}
    return Settings(name, "hpcpack", python=handle.get("python"), gpus_per_node=handle.get("gpus"), options=options)


def said_of_jobs(options: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of HPC Pack for a job: the compute's options under the job's own, key by key; `job_properties` name
    by name."""
    apart = (*HEAD, "modules", "setup")
    found = {key: value for key, value in options.items() if key not in apart}
    raw = {**found.get("job_properties", {}), **said.get("job_properties", {})}
    found.update(said)
    return {**found, "job_properties": raw} if raw else found


__all__ = ["Access", "Share", "access_of", "as_settings", "in_handle", "of_handle", "said_of_jobs", "share_of"]
