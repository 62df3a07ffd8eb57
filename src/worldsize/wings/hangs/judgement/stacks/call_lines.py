"""The check of whether a line that waits in a call of several ranks shows that only some ranks may take part in the
call.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

from worldsize.wings.hangs.judgement.stacks.collective_waits import Wait
from worldsize.wings.hangs.judgement.stacks.wait_rules import COLLECTIVE

_SOME_RANKS = re.compile(
    r"\b(?:process_)?group\w*\s*[=,)]|\b\w+_group\s*[,)]|\b(?:pg|mesh|dst|src|peer|use_local_synchronization)\b|\.wait\s*\("
)
_POINT_TO_POINT = re.compile(r"(?:i?send|i?recv|batch_isend_irecv|send\w*|recv\w*)")
_ROOTED = re.compile(r"_?(?:broadcast|reduce|gather|scatter)\w*")


def is_of_one_group(wait: Wait) -> bool:
    """Return whether a thread's wait is in a collective call for which nothing shows that fewer than all ranks take
    part, or that they leave at different times. False for a line whose text could not be read, since it shows nothing.
    """
    text = wait.user_frame.text if wait.user_frame is not None else ""
    is_of_some = _POINT_TO_POINT.fullmatch(wait.call) or _ROOTED.fullmatch(wait.call) or _SOME_RANKS.search(text)
    return wait.kind == COLLECTIVE and bool(text) and not is_of_some
