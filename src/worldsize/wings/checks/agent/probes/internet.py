"""The internet hosts that the script will want: whether a connection to each can be made from this node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.state.check_rows import BAD, OK, WARNING
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_texts
from worldsize.wings.checks.agent.readers.disk_space import error_words
from worldsize.wings.checks.agent.readers.tcp_connection import open_connection

LIMIT = 5.0
"""Seconds for all hosts together, somewhat less than the probe has."""

_ID, _WHAT = "network.internet", "the internet"
_MOST_HOSTS, _MOST_SAID = 20, 4
_HINT = "fetch it before the run: `stage:` in the job file, or an input by its address; or set the node's https_proxy"

TYPE_CHECKING = False
if TYPE_CHECKING:
    Connect = Callable[[str, int, float], None]

_CACHES = {
    "huggingface.co": (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("HOME", ".cache/huggingface/hub")),
    "download.pytorch.org": (("TORCH_HOME", "hub"), ("HOME", ".cache/torch/hub")),
}
"""Where what a host's libraries have fetched once lies: a variable, and the directory below what it names. With files
there, the host may not be needed."""

_OFFLINE = {
    "huggingface.co": ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    "cdn-lfs.huggingface.co": ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    "api.wandb.ai": ("WANDB_MODE",),
}
"""Variables by which a host's libraries are told not to connect to it, with one of these values."""

_OFFLINE_VALUES = frozenset(("1", "on", "yes", "true", "offline", "disabled", "dryrun"))


class Target(NamedTuple):
    """What is connected to for a host: itself, or the proxy that leads to it."""

    host: str
    port: int
    is_proxy: bool = False

    def text(self) -> str:
        return f"{self.host}:{self.port}"


def probe(context: NodeContext) -> ProbeResult:
    """Its row: network.internet; none where it is not known what the script wants."""
    return judge_hosts(context, open_connection)


def judge_hosts(context: NodeContext, connect: Connect, limit: float = LIMIT) -> ProbeResult:
    """The row, with the answers of `connect`."""
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
        return ProbeResult((context.row(_ID, _WHAT, _reached(known), OK),))
    said = [_complaint(host, target, answers[target]) for host, target in failed.items()]
    more = f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else ""
    is_needed = any(not has_cache(host, context.environ) for host in failed)
    value = "; ".join(said[:_MOST_SAID]) + more
    return ProbeResult((context.row(_ID, _WHAT, value, BAD if is_needed else WARNING, _HINT),))


def target_of(host: str, environ: Mapping[str, str]) -> Target | None:
    """What is connected to for "host:port"; None for a text of another form."""
    name, port = _split(host, None)
    if not name or port is None:
        return None
    proxy = "" if _is_excepted(name, environ) else _proxy(port, environ)
    if not proxy:
        return Target(name, port)
    address = proxy.rpartition("://")[2].partition("/")[0].rpartition("@")[2]
    server, at = _split(address, 80 if proxy.startswith("http://") else 443 if "://" in proxy else 80)
    return Target(server, at, True) if server and at else Target(name, port)


def _split(text: str, port: int | None) -> tuple[str, int | None]:
    """Host and port of `host:port`, `[::1]:port` or, with the usual port, the host alone."""
    name, colon, digits = text.rpartition(":")
    if not colon or "]" in digits:
        name, digits = text, ""
    number = parse_digits(digits) if digits else port
    is_port = number is not None and 0 < number < 65536
    return name.strip("[]"), number if is_port else None


def _proxy(port: int, environ: Mapping[str, str]) -> str:
    """As libraries read the variables; small letters count first."""
    kind = "http" if port == 80 else "https"
    names = (f"{kind}_proxy", f"{kind}_proxy".upper(), "all_proxy", "ALL_PROXY")
    return next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")


def _is_excepted(host: str, environ: Mapping[str, str]) -> bool:
    """Whether no_proxy names the host, or a domain that it is in."""
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip().lstrip(".*").partition(":")[0].lower() for name in said.split(",")]
    is_named = any(name and (host.lower() == name or host.lower().endswith("." + name)) for name in names)
    return is_named or said.strip() == "*"


def connect_all(targets: Sequence[Target], connect: Connect, limit: float) -> dict[Target, str]:
    """Connect to all at the same time; why each cannot be reached, "" for one that can be. A thread that is late is
    left to itself: the look-up of a name cannot be ended."""
    answers = dict.fromkeys(targets, f"no answer within {limit:g} s")
    lock = threading.Lock()

    def ask(target: Target) -> None:
        answer = _answer(target, connect, limit)
        with lock:
            answers[target] = answer

    threads = [threading.Thread(target=ask, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with lock:
        return dict(answers)


def _answer(target: Target, connect: Connect, limit: float) -> str:
    try:
        connect(target.host, target.port, limit)
    except socket.gaierror as error:
        return f"its name is not known ({error.strerror or error})"
    except OSError as error:  # of a timeout, too
        return f"no answer within {limit:g} s" if isinstance(error, socket.timeout) else error_words(error)
    except ValueError:  # a name that is none: too long, or with signs that no name has (UnicodeError)
        return "it is no host's name"
    return ""


def is_unused(host: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable tells the libraries that would connect to the host not to."""
    names = _OFFLINE.get(host.rpartition(":")[0], ())
    return any(environ.get(name, "").strip().lower() in _OFFLINE_VALUES for name in names)


def has_cache(host: str, environ: Mapping[str, str]) -> bool:
    """Whether this node has files that were fetched from the host before."""
    places = _CACHES.get(host.rpartition(":")[0], ())
    return any(environ.get(name) and _has_files(os.path.join(environ[name], below)) for name, below in places)


def _has_files(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def _complaint(host: str, target: Target, why: str) -> str:
    through = f" through the proxy {target.text()}" if target.is_proxy else ""
    return f"{host} cannot be reached{through}: {why}"


def _reached(known: Mapping[str, Target]) -> str:
    proxies = sorted({target.text() for target in known.values() if target.is_proxy})
    through = f" through the proxy {', '.join(proxies)}" if proxies else ""
    return f"{', '.join(list(known)[:_MOST_SAID])} can be reached{through}"
