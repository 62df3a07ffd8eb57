"""From a flavour to a cluster whose daemons run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable

from slurm import config, database, groups, machine, registry
from slurm.config import Flavour, Network
from slurm.reach import ALONE, CONTROLLER_PORT, DATABASE_PORT, GUARD, HERE, MARK, PYTHON, ClusterError, Reach

FOLDERS = ("etc", "log", "local", "nodes", "munge", "gpu", "shared")
LONGEST_PATH = 80
HOME = "/var/lib/worldsize-slurm"
"""No other user can make an entry on the way to a cluster's files: what does not depend on that is tested so."""

_guards: list[subprocess.Popen[bytes]] = []


def furnish(folder: str, number: int, flavour: Flavour, visible: Iterable[str]) -> None:
    """Every file that a cluster starts from."""
    for name in FOLDERS:
        os.makedirs(os.path.join(folder, name))
    os.chmod(folder, 0o755)
    os.chmod(os.path.join(folder, "shared"), 0o755)
    for name, text in config.files(flavour, Network(number), folder, machine.facts()).items():
        mode = {"mail": 0o755, "slurmdbd.conf": 0o600}.get(name, 0o644)
        _write(os.path.join(folder, "etc", name), text.encode(), mode)
    _write(os.path.join(folder, "munge", "key"), os.urandom(128), 0o400)
    for index in range(flavour.gpus):
        os.mknod(os.path.join(folder, "gpu", "gpu%d" % index), 0o020666, os.makedev(1, 3))
    seen = {folder, *map(os.path.realpath, (*machine.own_folders(), *visible))}
    found = machine.hierarchy()
    group = (found.version, os.path.join(found.folder, "worldsize-slurm-%d" % number)) if found else (0, "")
    limits = groups.here(groups.MEMORY) if flavour.limits else None
    memory = os.path.join(limits.folder, "worldsize-slurm-%d" % number) if limits else ""
    shown = sorted(filter(machine.hidden, seen))
    facts = {"number": number, "flavour": flavour._asdict(), "visible": shown, "group": group, "memory": memory}
    _write(os.path.join(folder, MARK), json.dumps(facts).encode(), 0o644)


def _write(path: str, content: bytes, mode: int) -> None:
    with open(path, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)


def new_folder(wanted: str | None) -> str:
    """An empty folder; ClusterError if the wanted one will not do."""
    if wanted is None:
        os.makedirs(HOME, 0o755, exist_ok=True)
    folder = os.path.realpath(wanted or tempfile.mkdtemp(prefix="wsslurm-", dir=HOME))
    if len(folder) > LONGEST_PATH:
        raise ClusterError("%s is too long for the path of a socket" % folder)
    if os.path.isdir(folder) and os.listdir(folder):
        raise ClusterError("%s is not empty" % folder)
    os.makedirs(folder, exist_ok=True)
    return folder


def guarded(folder: str, flavour: Flavour, visible: Iterable[str], owner: int) -> None:
    """Furnishes `folder` and starts the process that from then on answers for it; on failure nothing is left."""
    claim = registry.claim()
    try:
        registry.write(claim, folder, owner or None)
        furnish(folder, claim.number, flavour, visible)
        _start_guard(Reach(folder), claim, owner)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        registry.drop(claim)
        raise
    finally:
        os.close(claim.descriptor)


def _start_guard(cluster: Reach, claim: registry.Claim, owner: int) -> None:
    folder, network = cluster.folder, cluster.network
    watched = os.pidfd_open(owner) if owner else -1
    login = os.open("/proc/self/ns/net", os.O_RDONLY)
    descriptors = [claim.descriptor, watched, login]
    arguments = [
        folder,
        claim.path,
        network.prefix,
        network.link,
        cluster.group.folder,
        cluster.memory,
        *map(str, descriptors),
    ]
    with open(os.path.join(folder, "log", "guard.log"), "w+b") as log:
        process = subprocess.Popen(
            [*ALONE, "--net", *PYTHON, os.path.join(HERE, GUARD), *arguments],
            env=machine.ENVIRON,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[number for number in descriptors if number >= 0],
            start_new_session=True,
        )
        for number in descriptors[1:]:
            if number >= 0:
                os.close(number)
        assert process.stdout is not None
        with process.stdout as words:
            ready = words.readline() == b"ready\n"
        if not ready:
            process.wait()
            log.seek(0)
            raise ClusterError("the cluster's network could not be made: " + log.read().decode(errors="replace"))
    _guards.append(process)


def reap_guards() -> None:
    """Waits for guards of this process that have ended."""
    _guards[:] = [process for process in _guards if process.poll() is None]


def boot(cluster: Reach) -> None:
    """Starts munged, the accounting, slurmctld and the nodes; does not wait for Slurm to see them."""
    munge = cluster.path("munge")
    files = ["--socket=%s/sock" % munge, "--key-file=%s/key" % munge, "--seed-file=%s/seed" % munge]
    logs = ["--pid-file=%s/munged.pid" % munge, "--log-file=" + cluster.path("log", "munged.log")]
    cluster.run([*cluster.inside(), "munged", "--force", *files, *logs])
    if cluster.flavour.accounting:
        _boot_accounting(cluster)
    boot_controller(cluster)
    for starter in [cluster.boot_node(name) for name in cluster.node_names]:
        starter.wait()


def boot_controller(cluster: Reach) -> None:
    cluster.run([*cluster.inside(), "slurmctld"])
    cluster.until(lambda: cluster.listens(CONTROLLER_PORT), "slurmctld did not answer")


def _boot_accounting(cluster: Reach) -> None:
    cache = database.cached(machine.slurm_version())
    if not os.path.isdir(cache):
        _make_database(cluster, cache)
    database.copy(cache, cluster.local("db"))
    _boot_database(cluster)


def _boot_database(cluster: Reach) -> None:
    cluster.launch(database.server(cluster.folder), "mariadbd").wait()
    cluster.until(lambda: database.answers(cluster.folder), "MariaDB did not answer")
    cluster.run(database.client(cluster.folder, database.USERS))
    cluster.run([*cluster.inside(), "slurmdbd"])
    cluster.until(lambda: cluster.listens(DATABASE_PORT), "slurmdbd did not answer")


def _make_database(cluster: Reach, cache: str) -> None:
    """The accounting of a cluster that has never run; put into the cache only when it is whole."""
    cluster.run([*cluster.inside(), *database.create(cluster.folder)])
    _boot_database(cluster)
    for words in database.ASSOCIATIONS:
        cluster.run(["sacctmgr", "--immediate", "--quiet", *words.split()])
    for process in cluster.daemons("slurmdbd"):
        os.kill(process.pid, signal.SIGTERM)
    cluster.until(lambda: not cluster.daemons("slurmdbd"), "slurmdbd did not end")
    cluster.run(database.shut_down(cluster.folder))
    cluster.until(lambda: not cluster.daemons("mariadbd"), "MariaDB did not end")
    database.keep(cluster.local("db"), cache)
