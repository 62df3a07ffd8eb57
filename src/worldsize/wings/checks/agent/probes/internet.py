"""Probe for the internet hosts that the script will use: whether this node can connect to each of them.

A host that cannot be reached is only a warning: the script's data may be in a cache, or may have been unpacked in
advance.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from worldsize.common.named_tuple import NamedTuple, TypeAlias
from worldsize.state.check_rows import OK, WARNING
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_texts
from worldsize.wings.checks.agent.readers.row_texts import error_words, join_texts
from worldsize.wings.checks.agent.readers.tcp_connection import open_connection

LIMIT = 5.0
"""Time limit for all hosts together in seconds, slightly less than the limit of the probe."""

_ID, _WHAT = "network.internet", "the internet"
_MOST_HOSTS = 20
_HINT = "fetch it before the run: `stage:` in the job file, or an input by its address; or set the node's https_proxy"

Connect: TypeAlias = "Callable[[str, int, float], None]"

_OFFLINE = {
    "huggingface.co": ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    "cdn-lfs.huggingface.co": ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    "api.wandb.ai": ("WANDB_MODE",),
}
"""The variables that stop a host's libraries from connecting to it, if they have one of `_OFFLINE_VALUES`."""

_OFFLINE_VALUES = frozenset(("1", "on", "yes", "true", "offline", "disabled", "dryrun"))


class Target(NamedTuple):
    """The address to connect to for a host: the host itself, or the proxy that leads to it."""

    host: str
    port: int
    is_proxy: bool = False

    def text(self) -> str:
        return f"{self.host}:{self.port}"


def probe(context: NodeContext) -> ProbeResult:
    """Connect to the internet hosts that the script uses, and return the node check's row network.internet. Return no
    row if it is not known which hosts the script uses."""
    return judge_hosts(context, open_connection)


def judge_hosts(context: NodeContext, connect: Connect, limit: float = LIMIT) -> ProbeResult:
    """Connect to the job's internet hosts by `connect` and return the row network.internet: a warning if a host cannot
    be reached within `limit` seconds. An offline job's row is OK without a test. Return no row if there are no hosts.
    """
    hosts = asked_texts(context.asked, "hosts")[:_MOST_HOSTS]
    targets = {host: target_of(host, context.environ) for host in hosts}
    known = {host: target for host, target in targets.items() if target and not is_unused(host, context.environ)}
    if not known:
        return ProbeResult()
    if context.asked.get("offline") is True:
        return ProbeResult((context.row(_ID, _WHAT, "not used: the job is offline", OK),))
    answers = connect_all(list(dict.fromkeys(known.values())), connect, limit)
    failed = {host: target for host, target in known.items() if answers[target]}
    if not failed:
        return ProbeResult((context.row(_ID, _WHAT, _reached_text(known), OK),))
    said = [_complaint(host, target, answers[target]) for host, target in failed.items()]
    return ProbeResult((context.row(_ID, _WHAT, join_texts(said), WARNING, _HINT),))


def target_of(host: str, environ: Mapping[str, str]) -> Target | None:
    """Return the address to connect to for the host text "host:port": the proxy if the variables in `environ` name one
    for this host, otherwise the host itself. None if the text has another form."""
    name, port = _split(host, None)
    if not name or port is None:
        return None
    proxy = "" if _is_excepted(name, environ) else _proxy(port, environ)
    kind, sign, address = proxy.rpartition("://")
    server, at = _split(address, 443 if sign and kind != "http" else 80)
    return Target(server, at, True) if server and at else Target(name, port)


def _split(text: str, port: int | None) -> tuple[str, int | None]:
    """Return the host and the port of `host:port` or `user:password@[::1]:port/path`. A host without a port gets the
    given default port. Return ("", None) if the text is not an address."""
    try:
        parts = urlsplit("//" + text)
        return parts.hostname or "", parts.port or (port if parts.port is None else None)
    except ValueError:  # not an address, or not a port
        return "", None


def _proxy(port: int, environ: Mapping[str, str]) -> str:
    """Return the address of the proxy that libraries use for connections to this port, from the variables http_proxy
    (port 80), https_proxy and all_proxy in `environ`. A variable in lower case comes before the same one in upper case.
    Return "" if none is set."""
    kind = "http" if port == 80 else "https"
    names = (f"{kind}_proxy", f"{kind}_proxy".upper(), "all_proxy", "ALL_PROXY")
    return next(filter(None, (environ.get(name, "").strip() for name in names)), "")


def _is_excepted(host: str, environ: Mapping[str, str]) -> bool:
    """Return whether the variable no_proxy in `environ` contains the host, a domain of the host, or "*"."""
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip().lstrip(".*").partition(":")[0].lower() for name in said.split(",")]
    return said.strip() == "*" or any(name and f".{host}".endswith(f".{name}") for name in names)


def connect_all(targets: Sequence[Target], connect: Connect, limit: float) -> dict[Target, str]:
    """Connect to all targets at the same time. Return a mapping of each target to the reason why it cannot be reached,
    which is "" for a target that can be reached. A thread that is late is left running, because a name lookup cannot be
    interrupted."""
    answers = dict.fromkeys(targets, f"no answer within {limit:g} s")

    def ask(target: Target) -> None:
        answers[target] = _answer(target, connect, limit)

    threads = [threading.Thread(target=ask, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)


def _answer(target: Target, connect: Connect, limit: float) -> str:
    try:
        connect(target.host, target.port, limit)
    except socket.gaierror as error:
        return f"its name is not known ({error.strerror or error})"
    except OSError as error:  # includes timeouts
        return f"no answer within {limit:g} s" if isinstance(error, socket.timeout) else error_words(error)
    except ValueError:  # an invalid name: too long, or with characters that no name has (UnicodeError)
        return "it is not a host name"
    return ""


def is_unused(host: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable in `environ`, such as HF_HUB_OFFLINE, makes the libraries that use this host
    ("host:port") work offline."""
    names = _OFFLINE.get(host.rpartition(":")[0], ())
    return any(environ.get(name, "").strip().lower() in _OFFLINE_VALUES for name in names)


def _complaint(host: str, target: Target, why: str) -> str:
    through = f" through the proxy {target.text()}" if target.is_proxy else ""
    return f"{host} cannot be reached{through}: {why}"


def _reached_text(known: Mapping[str, Target]) -> str:
    proxies = sorted({target.text() for target in known.values() if target.is_proxy})
    through = f" through the proxy {', '.join(proxies)}" if proxies else ""
    return f"{join_texts(list(known), separator=', ')} can be reached{through}"
