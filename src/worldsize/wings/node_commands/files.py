"""The directory of a node command that is sent in files: creating it atomically, and keeping it alive by its lease."""

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
"""Seconds without a change of the lease after which nodes consider the client gone."""

_WIDTH = 16


def new_command_path(share: str, prefix: str = "") -> str:
    """Return the path of a new directory in this user's own directory for node commands, on a share of several users.
    The user's directory is created if it is missing, but the new one is not. Its content is executed, and removed.
    Raise StorageError if other users could replace it."""
    path = os.path.join(user_directory_in(share), f".exec-{os.getuid()}")
    try:
        require_shared_directory(share)
        return os.path.join(make_private_directory(path), prefix + new_command_name())
    except OSError as error:
        raise storage_error(error, path) from None


def write_command_directory(directory: str, wanted: Mapping[str, Any]) -> None:
    """Create the directory of a node command atomically, with the order `wanted`, the node program, the lease and an
    empty file for each node: it exists completely or not at all. Raise StorageError if it cannot be written."""
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
    """Return a unique name for a node command."""
    return f"{int(time.time())}-{os.urandom(4).hex()}"


def write_lease(directory: str, word: str) -> None:
    """Write `word` to the file `lease` in a node command's directory, by which nodes see that the client is alive. It
    is written in place, because a new file might be seen much later than new content. Raise OSError if it cannot be
    written."""
    with open(os.path.join(directory, "lease"), "r+b", buffering=0) as file:
        file.write(word.ljust(_WIDTH).encode())
