"""The process that is a node: `main(text)`, with a socket to the head node as its standard input. If the process is
killed, the node is down.

Messages on the socket are lines of JSON. The head node sends the orders `start` and `end`. The node sends `ready`, and
`ended` for every task, with its exit code and the beginning of its output. When the socket is closed, or on TERM, all
processes of the node are ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from worldsize.agent.posix.processes import become_subreaper, children, trees
from worldsize_hpcpack_simulator.nodes.shepherd import TaskOrder, end_all, kill, run_task

_CHUNK = 65536


class NodeWorker:
    """A node, with its socket to the head node, and a socket to the shepherd of each of its tasks."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.folder: str = words["folder"]
        self.home = os.path.join(self.folder, "home")
        self.link = os.path.basename(words["at"])
        self.head = socket.socket(fileno=os.dup(0))
        self.tasks: dict[str, socket.socket] = {}
        self.shepherds: dict[str, int] = {}
        self.selector = selectors.DefaultSelector()
        self.read = b""

    def send(self, **words: object) -> None:
        self.head.sendall(json.dumps(words).encode() + b"\n")

    def serve(self) -> None:
        """Handle the head node's orders (to start and end tasks) and the ends of tasks until the head node's socket is
        closed."""
        self.selector.register(self.head, selectors.EVENT_READ, "")
        while True:
            for key, _ in self.selector.select():
                if key.data:
                    self._handle_end(key.data)
                elif not self._handle_orders():
                    return

    def _handle_orders(self) -> bool:
        data = self.head.recv(_CHUNK)
        *lines, self.read = (self.read + data).split(b"\n")
        for line in lines:
            words = json.loads(line)
            if words["do"] == "start":
                self._start(TaskOrder(words))
            elif words["key"] in self.tasks:
                self.tasks[words["key"]].sendall(b"%f\n" % words["grace"])
        return bool(data)

    def _start(self, order: TaskOrder) -> None:
        ours, theirs = socket.socketpair()
        self._write_hosts(order)
        pid = os.fork()
        if not pid:
            ours.close()  # only the node may hold this end: its closing shows the shepherd the node's end
            self._run_shepherd(order, theirs)
        theirs.close()
        self.tasks[order.key], self.shepherds[order.key] = ours, pid
        self.selector.register(ours, selectors.EVENT_READ, order.key)

    def _write_hosts(self, order: TaskOrder) -> None:
        path = os.path.join(self.home, "hostfile-" + order.key)
        with open(path, "w", encoding="ascii") as file:
            file.write("".join(name + "\n" for name in order.environ["CCP_NODES_CORES"].split()[1::2]))
        order.environ["CCP_MPI_HOSTFILE"] = path

    def _run_shepherd(self, order: TaskOrder, line: socket.socket) -> NoReturn:
        """Run the shepherd of a task in the forked process, which sends the result on `line`, and exit at its end."""
        try:
            self.selector.close()
            self.head.close()
            for other in self.tasks.values():
                other.close()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            run_task(order, line)
        finally:
            os._exit(0)

    def _handle_end(self, key: str) -> None:
        """Read the result of the task `key` from its shepherd, and send it to the head node. If the shepherd died
        without a result, kill the task's processes, which are then below this one."""
        line = self.tasks[key]
        said = line.recv(_CHUNK)
        while said and not said.endswith(b"\n"):
            more = line.recv(_CHUNK)
            said = said + more if more else b""
        self.selector.unregister(line)
        line.close()
        del self.tasks[key]
        os.waitpid(self.shepherds.pop(key), 0)
        if not said:
            self._end_orphans()
        told = json.loads(said) if said else {"code": -1, "output": "", "trouble": "the task's processes were lost"}
        if os.path.exists(path := os.path.join(self.home, "hostfile-" + key)):
            os.unlink(path)
        self.send(tell="ended", key=key, **told)

    def _end_orphans(self) -> None:
        shepherds = set(self.shepherds.values())
        while orphans := trees(pid for pid in children() if pid not in shepherds):
            kill(orphans)


def _clean_up_and_exit(node: NodeWorker) -> NoReturn:
    """End all processes of the simulated node, remove its files, and exit this process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_all()
    shutil.rmtree(node.home, ignore_errors=True)
    parent = os.path.dirname(node.folder)
    for path in (os.path.join(node.folder, "root"), node.folder, parent):
        with contextlib.suppress(OSError):
            if path == parent and os.listdir(path) == [node.link]:
                os.unlink(os.path.join(path, node.link))
            os.rmdir(path)  # the last of the nodes removes the common files
    os._exit(0)


def _stop(number: int, frame: object) -> None:
    raise SystemExit


def main(text: str) -> NoReturn:
    """Run a simulated node in this process until the head node closes its socket, or TERM; then exit. `text` is a JSON
    object with the keys name, folder, share, at, hosts, isolated, mounted, hidden."""
    words = json.loads(text)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    become_subreaper()
    node = NodeWorker(words)
    shutil.rmtree(node.home, ignore_errors=True)  # left by a killed node
    os.makedirs(node.home)
    try:
        if words["isolated"]:
            os.makedirs(os.path.join(node.folder, "root"), exist_ok=True)
            _isolate(node, words)
        node.send(tell="ready", pid=os.getpid())
        node.serve()
    except (SystemExit, OSError):
        pass
    finally:
        _clean_up_and_exit(node)


def _isolate(node: NodeWorker, words: Mapping[str, Any]) -> None:
    from worldsize_hpcpack_simulator.nodes.namespaces import enter_node

    root = os.path.join(node.folder, "root")
    try:
        enter_node(words["name"], root, words["share"], words["at"], words["hosts"], words["mounted"], words["hidden"])
    except OSError as error:
        node.send(tell="refused", why=str(error.strerror or error))
        raise


if __name__ == "__main__":
    main(sys.argv[1])
