"""The process on a node of a job on Azure Machine Learning. It prepares the run's directory on the node's own disk,
starts the run's agent there, and sends what the agent writes through the node's log, until the agent has ended.

The service starts one such process on each node, with the folder that was uploaded for the run, and with the locations
of the job's inputs and outputs:

    python -c '… main(sys.argv[1:])' FOLDER inputs.data=/mnt/x outputs.model=/mnt/y

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from worldsize.agent.outcome.node_record import note, write_unstarted_record
from worldsize.common.atomic_files import read_file, write_all, write_bytes, write_json
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError, WorldsizeError
from worldsize.plan.hosted_places import with_places
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit
from worldsize.wings.azure.agent.head_exchange import HeadExchange, ask_head
from worldsize.wings.azure.agent.relay import Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY_FILE = "relay.key"
"""The file with the run's key, in hexadecimal: in the folder that is uploaded, and in the client's run directory."""

PROGRAMS_FILE = "programs.json"
"""The file with the list of executable files of the code, as relative paths."""

NODE_RANK, HEAD, HEAD_PORT = "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"
"""The variables that the service sets for each process of a job with several nodes."""

_PAUSE = 0.25
_LEAST_WAIT = 10.0
"""Least number of seconds that a failed head waits for members that it must notify. They ask once a second."""

_PASSED_ON = (signal.SIGTERM, signal.SIGINT)


class JobNode(NamedTuple):
    """The data of a prepared node: its paths, plan, rank and the run's key."""

    paths: RunPaths
    plan: Plan
    node_rank: int
    key: bytes


class SetupLog:
    """The output of the lines of setup, which is copied unchanged into the node's log."""

    def __init__(self, path: str, out: int) -> None:
        self._path = path
        self._out = out
        self._sent = 0

    def send(self) -> None:
        """Write the output of the setup lines that is new since the last call to the node's log. Nothing is written if
        there is none yet, or if the log accepts no more."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._sent)
                new = file.read()
            write_all(self._out, new)
            self._sent += len(new)
        except OSError:
            pass  # a log that cannot be written does not stop the run


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Prepare this node of an Azure ML job and run its agent until it has ended. `argv` is the uploaded folder and the
    locations of inputs and outputs. Return the agent's exit code, or 2 if the node could not be prepared."""
    try:
        node = prepare_node(argv[0], _places(argv[1:]), os.getcwd(), environ)
    except (WorldsizeError, OSError, ValueError, IndexError) as error:
        note(f"worldsize agent: {error}")
        return 2
    return _run(node, environ)


def _places(words: Sequence[str]) -> dict[str, str]:
    """Return the locations of a job's inputs and outputs, as a mapping of name to path, from words such as
    `inputs.data=/mnt/x` and `outputs.model=/mnt/y`."""
    pairs = [word.partition("=") for word in words]
    return {name: path for name, _, path in pairs}


def prepare_node(folder: str, places: Mapping[str, str], cwd: str, environ: Mapping[str, str]) -> JobNode:
    """Make the run's directory on this node from the uploaded `folder`, and return the node's paths, plan, rank and
    key. The plan gets the locations on this node (`places`), and `code` is the job's own working directory. Raise
    OSError, ValueError if the plan is not valid, UsageError if the node's rank is not."""
    key = bytes.fromhex(read_file(os.path.join(folder, KEY_FILE)).decode("ascii").strip())
    base = tempfile.mkdtemp(prefix="worldsize-")
    text = with_places(read_file(os.path.join(folder, "plan.json")).decode("utf-8"), base, places)
    plan = Plan.from_value(json.loads(text))
    paths = RunPaths(os.path.join(base, plan.run_id))
    shutil.copytree(folder, paths.root, ignore=shutil.ignore_patterns(KEY_FILE, PROGRAMS_FILE, "plan.json"))
    for directory, _, _ in os.walk(paths.root):  # a mounted folder may be read-only
        os.chmod(directory, 0o700)
    write_bytes(paths.plan, text.encode("utf-8"))
    os.symlink(cwd, paths.code)
    _mark_programs(folder, cwd)
    for name, place in (("outputs", paths.outputs), ("logs", paths.user_logs)):
        own = os.path.join(cwd, name)
        os.makedirs(own, exist_ok=True)
        os.symlink(own, place)
    return JobNode(paths, plan, _node_rank(len(plan.agents), environ), key)


def _mark_programs(folder: str, code: str) -> None:
    """Make those files in the directory `code` executable that were executable on the client, as listed in `folder`."""
    for name in json.loads(read_file(os.path.join(folder, PROGRAMS_FILE))):
        path = os.path.join(code, name)
        try:
            os.chmod(path, os.stat(path).st_mode | 0o111)
        except OSError:
            pass  # a code directory that is read-only, or a file that the service has left out


def _node_rank(nodes: int, environ: Mapping[str, str]) -> int:
    if nodes == 1:
        return 0
    text = environ.get(NODE_RANK, "")
    number = parse_digits(text)
    if number is None or number >= nodes:
        raise UsageError(f"{text!r:.40} is not a node of this run, which has nodes 0 to {nodes - 1}", NODE_RANK)
    return number


def _run(node: JobNode, environ: Mapping[str, str]) -> int:
    """Start the agent of the run on this node, and send the files that it writes through the node's log until it has
    ended. Return the agent's exit code. A head that failed before it started ranks then waits until its members have
    been notified."""
    began = time.monotonic()
    stopped: list[int] = []
    for number in _PASSED_ON:
        signal.signal(number, lambda heard, _: stopped.append(heard))
    ranks = [rank.rank for rank in node.plan.nodes[node.node_rank].ranks]
    relay = Relay(node.paths, node.node_rank, ranks, sys.stdout.fileno(), node.key)
    try:
        exchange = _meet(node, environ)
    except (WorldsizeError, OSError) as error:
        for directory in node.paths.directories():
            os.makedirs(directory, mode=0o700, exist_ok=True)
        what = f"node {node.node_rank}: the nodes cannot meet: {error}"
        note(f"worldsize agent: {what}")
        write_unstarted_record(node.plan, node.paths, node.node_rank, what)
        relay.finish()
        return 1
    address = ("--address", environ[HEAD]) if exchange is not None else ()
    words = [sys.executable, "-I", "-S", node.paths.agent, node.paths.root, "--node-rank", str(node.node_rank)]
    agent = subprocess.Popen([*words, "--prepare", *address], stdin=subprocess.DEVNULL, env=dict(environ))
    setup = SetupLog(node.paths.setup_log(node.node_rank), sys.stdout.fileno())
    while True:
        while stopped:
            agent.send_signal(stopped.pop(0))
        setup.send()
        relay.step()
        try:
            code = agent.wait(_PAUSE)
            break
        except subprocess.TimeoutExpired:
            continue
    setup.send()
    _keep_mlflow_runs(node.paths)
    relay.finish()
    if exchange is not None:
        ended = read_exit(node.paths, 0)
        if ended is not None and ended.failure is not None and not ended.ranks:
            left = node.plan.rendezvous_timeout - (time.monotonic() - began)
            exchange.wait_until_told(max(left, _LEAST_WAIT), lambda: bool(stopped))
        exchange.close()
    shutil.rmtree(os.path.dirname(node.paths.root), ignore_errors=True)
    return code if code >= 0 else 128 - code


def _keep_mlflow_runs(paths: RunPaths) -> None:
    """Copy the files that MLflow has logged on this node into the directory of the run's outputs, since the run's
    directory is removed with the node."""
    if os.path.isdir(paths.mlruns):
        try:
            shutil.copytree(paths.mlruns, os.path.join(paths.outputs, "mlruns"), symlinks=True, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            note(f"worldsize agent: the log of MLflow is incomplete: {error}")


def _meet(node: JobNode, environ: Mapping[str, str]) -> HeadExchange | None:
    """Start the exchange by which members find their head. On the head, return its HeadExchange. On a member, start a
    thread that writes the head's rendezvous or exit record into the member's own run directory, where its agent reads
    it, and return None. None also for a single node. Raise UsageError if the service has not set the variables;
    OSError."""
    if len(node.plan.agents) == 1:
        return None
    port = parse_digits(environ.get(HEAD_PORT, ""))
    if port is None or not environ.get(HEAD):
        raise UsageError("not set, so the nodes cannot find their head", f"{HEAD}, {HEAD_PORT}")
    if node.node_rank == 0:
        return HeadExchange(node.paths, environ[HEAD], port, node.key, len(node.plan.agents))
    timeout = node.plan.rendezvous_timeout

    def fetch() -> None:
        found, ended = ask_head(environ[HEAD], port, node.key, timeout, node.node_rank)
        for directory in (node.paths.attempt_dir, node.paths.exit_dir):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        if found is not None:
            write_json(node.paths.rendezvous, found._asdict(), private=True)
        if ended is not None:
            write_json(node.paths.exit_record(0), ended.to_json(), private=True)

    threading.Thread(target=fetch, name="worldsize rendezvous", daemon=True).start()
    return None
