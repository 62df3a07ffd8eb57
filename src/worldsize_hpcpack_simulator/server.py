"""The simulator's server: it starts the head node and its nodes, announces the address, and stops them all."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import ssl
import tempfile
from collections.abc import Callable, Coroutine
from typing import IO, Any

import uvicorn

from worldsize.errors import UsageError
from worldsize_hpcpack_simulator import folder as cluster_folder
from worldsize_hpcpack_simulator.api.head import HeadNode
from worldsize_hpcpack_simulator.api.web import web_app
from worldsize_hpcpack_simulator.certificate import issue
from worldsize_hpcpack_simulator.options import SimulatorOptions
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster

HOST = "127.0.0.1"
KEEP_ALIVE = 120
"""Seconds after which an idle connection is closed, the default of IIS. A client that keeps its connections for longer
may send a request on one that has just been closed."""
_IDLE, _STEPS, _LEAST = 0.2, 4, 0.002
_GRACEFUL = 1
Announce = Callable[[HeadNode, str, str, str], None]


def run(options: SimulatorOptions, announce: Announce, log: IO[str] | None = None) -> None:
    """Run the simulated HPC Pack cluster, and serve its requests until SIGINT, SIGTERM or SIGHUP. Afterwards nothing is
    left, except what runs have written to the share. `log` receives a line for each request.

    `announce(head, url, path, text)` is called once everything answers, with the configuration that was written. Raise
    ConfigError, UsageError, StorageError if the simulator cannot start.
    """
    with cluster_folder.hold_share(options.share) as where, _listen(options.port) as listener:
        asyncio.run(_simulate(options, where, listener, announce, log))


def _listen(port: int) -> socket.socket:
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only if the protocol is given
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(f"port {port} is not available: {error.strerror}", "--port", "--port 0") from None
    return listener


async def _simulate(
    options: SimulatorOptions,
    where: cluster_folder.SimulatorPaths,
    listener: socket.socket,
    announce: Announce,
    log: IO[str] | None,
) -> None:
    stop, woken = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    folder = tempfile.mkdtemp(prefix="worldsize-hpcpack-")
    cluster = Cluster(options, folder)
    try:
        await cluster.start()
        _check_names(options, cluster)
        head = HeadNode(options, cluster)
        head.scheduler.changed = woken.set
        authority, own = issue(options.days)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with own.private_key_and_cert_chain_pem.tempfile(folder) as path:
            context.load_cert_chain(path)
        server = _make_server(head, context, woken, log)
        url = f"https://localhost:{listener.getsockname()[1]}"
        text = cluster_folder.configuration(where, options, url, cluster)
        cluster_folder.write_files(where, authority.cert_pem.bytes(), text)
        await _serve(
            server, listener, stop, _run_scheduler(head, woken), lambda: announce(head, url, where.config, text)
        )
    finally:
        await cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _check_names(options: SimulatorOptions, cluster: Cluster) -> None:
    for name in options.unmounted:
        if not cluster.isolated:
            raise UsageError(f"no node can lack the share without namespaces ({cluster.why})", "--unmounted")
        if name not in cluster.nodes:
            raise UsageError(f"there is no node {name}", "--unmounted", f"one of {', '.join(cluster.nodes)}")


def _make_server(head: HeadNode, context: ssl.SSLContext, woken: asyncio.Event, log: IO[str] | None) -> uvicorn.Server:
    """Create the HTTPS server of the head node, which answers with `head` and sets `woken` after changes. It installs
    no signal handlers: `_simulate` handles signals itself."""
    config = uvicorn.Config(
        web_app(head, woken.set, _make_logger(log)),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_GRACEFUL,
        timeout_keep_alive=KEEP_ALIVE,
    )
    config.load()
    config.ssl = context
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    return server


async def _serve(
    server: uvicorn.Server,
    listener: socket.socket,
    stop: asyncio.Event,
    pace: Coroutine[Any, Any, None],
    announce: Callable[[], None],
) -> None:
    """Serve HTTPS requests with `server` and run the scheduler (`pace`) until `stop` is set or one of them ends.
    `announce` is called once requests are served. Raise the scheduler's errors."""
    serving, pacing, stopped = map(asyncio.ensure_future, (server.serve(sockets=[listener]), pace, stop.wait()))
    while not server.started and not serving.done():
        await asyncio.sleep(_LEAST)
    if server.started:
        announce()
    await asyncio.wait((serving, pacing, stopped), return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    for task in (pacing, stopped):
        task.cancel()
    for result in await asyncio.gather(pacing, stopped, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def _run_scheduler(head: HeadNode, woken: asyncio.Event) -> None:
    """Run the steps of the head node's job scheduler forever: at once when something has changed (`woken` is set), and
    often while jobs change by themselves."""
    while True:
        woken.clear()
        busy = head.scheduler.step()
        wait = max(_LEAST, head.options.delay / _STEPS) if busy else _IDLE
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(woken.wait(), wait)


def _make_logger(log: IO[str] | None) -> Callable[[str], None]:
    def write(line: str) -> None:
        if log is not None:
            log.write(line + "\n")
            log.flush()

    return write
