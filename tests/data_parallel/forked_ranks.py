"""Runs a script by itself and on several ranks, each a fork of this interpreter, which has imported torch already:
tenths of a second a script."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any, NamedTuple

import torch._dynamo
import torch.distributed

PATIENCE = 120.0
_PREFIX = "worldsize: data parallel: "


class Output(NamedTuple):
    """What one process has printed: `notices` are those of the data-parallel training, without their beginning."""

    printed: str
    notices: list[str]
    error: str


def run_alone(path: str) -> Output:
    """The script in a process of its own, as it is."""
    return _outputs([_fork(lambda: _run(path))])[0]


def run_on_ranks(path: str, ranks: int, mode: str = "split") -> list[Output]:
    """The script as one data-parallel training of so many ranks."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    return _outputs([_fork(lambda rank=rank: _run_rank(path, rank, ranks, mode, port)) for rank in range(ranks)])


def run_launched(path: str, ranks: int) -> list[Output]:
    """The script as a launcher starts so many ranks of it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    return _outputs([_fork(lambda rank=rank: _run_launched(path, rank, ranks, port)) for rank in range(ranks)])


def _run_launched(path: str, rank: int, ranks: int, port: int) -> None:
    environ = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in environ.items()})
    _run(path)
    torch.distributed.destroy_process_group()


def _run_rank(path: str, rank: int, ranks: int, mode: str, port: int) -> None:
    environ = {"WORLDSIZE_RANK": rank, "WORLDSIZE_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in environ.items()})
    import worldsize.inrank
    import worldsize.inrank.import_hook
    import worldsize.wings.data_parallel.inrank as package

    sys.modules["worldsize_inrank"] = worldsize.inrank
    sys.modules["worldsize_inrank.import_hook"] = worldsize.inrank.import_hook
    sys.modules["worldsize_inrank.data_parallel"] = package
    from worldsize.wings.data_parallel.inrank import install

    sys.modules["worldsize_inrank.data_parallel.install"] = install
    install.install(mode, os.environ)
    try:
        _run(path)
    finally:
        assert install.PARTS is not None
        world = install.PARTS.training.world
        if sys.exc_info()[0] is None and install.PARTS.training.used:
            world.wait_for_others()
        world.close()


def _run(path: str) -> None:
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    os.chdir(os.path.dirname(path))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise


def _fork(function: Any) -> tuple[int, int]:
    """A child that runs the function. Its id, and a descriptor of what it writes: its standard output, a NUL, its
    standard error, a NUL, the traceback of what it has raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    printed, told, error = io.StringIO(), io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        try:
            function()
        except BaseException:  # noqa: BLE001  it is the parent's to judge
            error = traceback.format_exc()
    data = "\0".join((printed.getvalue(), told.getvalue(), error)).encode()
    while data:
        data = data[os.write(writing, data) :]
    os._exit(0)


def _outputs(children: list[tuple[int, int]]) -> list[Output]:
    deadline = time.monotonic() + PATIENCE
    texts = {reading: b"" for _, reading in children}
    open_ones = set(texts)
    while open_ones and time.monotonic() < deadline:
        for reading in select.select(list(open_ones), [], [], 1)[0]:
            data = os.read(reading, 1 << 16)
            texts[reading] += data
            if not data:
                open_ones.discard(reading)
    for child, reading in children:
        if reading in open_ones:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
    return [_output(texts[reading].decode(), reading in open_ones) for _, reading in children]


def _output(text: str, stuck: bool) -> Output:
    printed, told, error = (*text.split("\0"), "", "", "")[:3]
    notices = [line[len(_PREFIX) :] for line in told.splitlines() if line.startswith(_PREFIX)]
    return Output(printed, notices, "it did not end" if stuck else error)
