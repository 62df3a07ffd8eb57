"""The directory of a node command that is sent in files: make it as a whole, and keep it alive by its lease."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from worldsize.common.atomic_files import storage_error, write_text
from worldsize.plan.run_paths import NODE_PROGRAM_FILE
from worldsize.trust.directories import (
    make_directories,
    make_private_directory,
    require_shared_directory,
    user_directory_in,
)
from worldsize.wings.node_commands.agent import transports
from worldsize.wings.node_commands.by_process import program

LEASE = 5.0
"""Seconds without a change of the lease after which nodes take whoever asked for gone."""

_WIDTH = 16


def new_command_path(share: str, prefix: str = "") -> str:
    """Return the path of a new directory, which is not made, in this user's own for node commands on a share of several
    users, which is made if it is missing: what lies in it is executed, and removed. StorageError where others could put
    something in its place."""
    path = os.path.join(user_directory_in(share), f".exec-{os.getuid()}")
    try:
        require_shared_directory(share)
        return os.path.join(make_private_directory(path), prefix + new_command_name())
    except OSError as error:
        raise storage_error(error, path) from None


def write_command_directory(directory: str, wanted: Mapping[str, Any]) -> None:
    """Make the node command's directory, which is there as a whole or not at all. StorageError."""
    parent, name = os.path.split(directory)
    draft = os.path.join(parent, "." + name)
    files = {"order.json": json.dumps({**wanted, "lease": LEASE}), NODE_PROGRAM_FILE: program(), "lease": ""}
    files.update({transports.node_file_name(node): "" for node in wanted["nodes"]})
    try:
        make_directories(draft)
        for file, text in files.items():
            write_text(os.path.join(draft, file), text, private=True)
        write_lease(draft, "go 0")
        os.rename(draft, directory)
    except OSError as error:
        transports.remove_directory(draft)
        raise storage_error(error, directory) from None


def new_command_name() -> str:
    """Return a name for a node command, which no other has."""
    return f"{int(time.time())}-{os.urandom(4).hex()}"


def write_lease(directory: str, word: str) -> None:
    """Write the lease in place: a new file might be seen much later than new content. OSError."""
    with open(os.path.join(directory, "lease"), "r+b", buffering=0) as file:
        file.write(word.ljust(_WIDTH).encode())
