"""An initialised MariaDB folder: made once, kept under build/, copied for each cluster."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import tempfile

from slurm import machine

SERVER = """
    --no-defaults --user=root --bind-address=127.0.0.1 --port=3306 --skip-log-bin --skip-name-resolve
    --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 --innodb-log-file-size=8M
    --innodb-flush-log-at-trx-commit=0 --loose-innodb-doublewrite=0 --loose-innodb-flush-method=nosync
    --loose-performance-schema=OFF
"""
USERS = (
    "create database if not exists slurm_acct;create user if not exists slurm@'127.0.0.1' identified by 'slurm';"
    "grant all on slurm_acct.* to slurm@'127.0.0.1';"
)
"""The database is there before slurmdbd asks for it: a connection of MariaDB's client library 11.8.9 that was refused
takes no result any more (error 5027), and slurmdbd tries again on the same one."""
ASSOCIATIONS = (
    "add cluster testbed",
    "add qos urgent Priority=100",
    "add account research,teaching Cluster=testbed",
    "add user root Account=research,teaching DefaultAccount=research",
    "modify user root set QosLevel=normal,urgent",
)


def _socket(folder: str) -> str:
    return os.path.join(folder, "db.sock")


def data(folder: str) -> str:
    """As the controller's machine has it."""
    return os.path.join(folder, "local", "db")


def _folders(folder: str) -> list[str]:
    """Temporary tables are named after the process id, which two clusters' servers share: never in one /tmp."""
    return ["--datadir=" + data(folder), "--tmpdir=" + os.path.join(folder, "local", "tmp")]


def server(folder: str) -> list[str]:
    """The daemon, which stays in the foreground."""
    own = [*_folders(folder), "--socket=" + _socket(folder)]
    return ["mariadbd", *SERVER.split(), *own, "--pid-file=" + os.path.join(folder, "log", "mariadbd.pid")]


def client(folder: str, statement: str) -> list[str]:
    return ["mariadb", "--no-defaults", "--socket=" + _socket(folder), "-e", statement]


def shut_down(folder: str) -> list[str]:
    return ["mariadb-admin", "--no-defaults", "--socket=" + _socket(folder), "shutdown"]


def answers(folder: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(_socket(folder))
        except OSError:
            return False
    return True


def cached(slurm: tuple[int, int]) -> str:
    """Where the folder for these versions and settings is, or will be."""
    words = subprocess.run(["mariadbd", "--version"], capture_output=True, text=True, check=True, env=machine.ENVIRON)
    version = re.search(r"Ver ([\w.]+)", words.stdout)
    settings = hashlib.sha256(repr((SERVER, ASSOCIATIONS)).encode()).hexdigest()[:8]
    name = "mariadb-%s-slurm-%d.%d-%s" % (version and version[1], *slurm, settings)
    return os.path.join(machine.REPOSITORY, "build", "slurm", name)


def create(folder: str) -> list[str]:
    """Makes empty system tables: seconds."""
    common = ["--no-defaults", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"]
    return ["mariadb-install-db", *common, *_folders(folder), "--innodb-log-file-size=8M"]


def keep(source: str, cache: str) -> None:
    """Moves a folder into the cache, unless another cluster was first."""
    parent = os.path.dirname(cache)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as whole:
        inner = os.path.join(whole, "db")
        copy(source, inner)
        shutil.rmtree(source)
        try:
            os.rename(inner, cache)
        except OSError:
            if not os.path.isdir(cache):
                raise


def copy(source: str, target: str) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", source, target], check=True)
