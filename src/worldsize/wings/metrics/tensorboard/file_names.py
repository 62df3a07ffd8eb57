"""A parser for the names of event files: `events.out.tfevents.<seconds>.<host>[.<pid>.<number>][suffix]`.

The format is from the sources of tensorboard 2.21 (with which torch, Lightning, accelerate and transformers write) and
TensorFlow 2.21, whose names contain the process, and of tensorboardX 2.6, whose names do not.
"""

from __future__ import annotations

import os
import re

from worldsize.common.named_tuple import NamedTuple

MARK = "tfevents"
_NAME = re.compile(r"tfevents\.(?P<time>[0-9]{9,11})\.(?P<rest>.{1,400})", re.DOTALL)
_WRITER = re.compile(r"(?P<host>.{1,300}?)\.(?P<pid>[0-9]{1,9})\.[0-9]{1,9}(?:[^0-9].*)?", re.DOTALL)


class FileName(NamedTuple):
    """The parts of an event file's name.

    created  in whole Unix seconds; 0 if the name does not contain it
    host     "" if the name does not contain it
    pid      of the process that writes; None if the name does not contain it
    """

    created: int = 0
    host: str = ""
    pid: int | None = None


def is_event_file(path: str) -> bool:
    return MARK in os.path.basename(path)


def parse_name(path: str) -> FileName:
    match = _NAME.search(os.path.basename(path))
    if match is None:
        return FileName()
    writer = _WRITER.fullmatch(match["rest"])
    if writer is None:
        return FileName(int(match["time"]), match["rest"])
    return FileName(int(match["time"]), writer["host"], int(writer["pid"]))
