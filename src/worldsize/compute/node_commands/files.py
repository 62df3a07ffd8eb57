"""The directory of a node command that travels in files: made as a whole, kept alive by its lease, removed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from worldsize.agent.node_programs import run_command
from worldsize.common.atomic_files import storage_error
from worldsize.compute.node_commands.by_process import program
from worldsize.plan.run_paths import NODE_PROGRAM_FILE
from worldsize.trust.directories import (
    make_directories,
    make_private_directory,
    require_shared_directory,
    user_directory_in,
)

LEASE = 5.0
"""Seconds without a change of the lease after which nodes take us for gone."""

_WIDTH = 16


def ensure_commands_directory(share: str) -> str:
    """This user's own directory for node commands on a share of several users, made if it is missing: what lies in it
    is executed, and removed. StorageError where others could put something in its place."""
    path = os.path.join(user_directory_in(share), f".exec-{os.getuid()}")
    try:
        require_shared_directory(share)
        return make_private_directory(path)
    except OSError as error:
        raise storage_error(error, path) from None


def write_command_directory(directory: str, wanted: Mapping[str, Any]) -> None:
    """Make the node command's directory, which is there as a whole or not at all. StorageError."""
    parent, name = os.path.split(directory)
    draft = os.path.join(parent, "." + name)
    files = {
        "order.json": json.dumps({**wanted, "lease": LEASE}),
        NODE_PROGRAM_FILE: program(),
        "lease": lease_text("0"),
    }
    files.update({run_command.segment_name(node, 0): "" for node in wanted["nodes"]})
    try:
        make_directories(draft)
        for file, text in files.items():
            descriptor = os.open(os.path.join(draft, file), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
        os.rename(draft, directory)
    except OSError as error:
        remove_command_directory(draft)
        raise storage_error(error, directory) from None


def new_command_name() -> str:
    """A name for a node command, which no other has."""
    return f"{int(time.time())}-{os.urandom(4).hex()}"


def remove_command_directory(directory: str) -> None:
    """Whatever can be removed is."""
    for _ in range(3):
        try:
            for name in os.listdir(directory):
                os.unlink(os.path.join(directory, name))
            return os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError:
            continue  # a node was still writing


def write_lease(directory: str, word: str) -> None:
    """In place: a new file might be seen much later than new content. OSError."""
    descriptor = os.open(os.path.join(directory, "lease"), os.O_WRONLY)
    try:
        os.pwrite(descriptor, lease_text(word).encode(), 0)
    finally:
        os.close(descriptor)


def lease_text(word: str) -> str:
    return word.ljust(_WIDTH)
