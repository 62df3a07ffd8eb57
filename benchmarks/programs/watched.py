"""The worldsize command with notes of when its stages begin: python watched.py NOTES RUNS WORDS….

Nothing of worldsize is wrapped or replaced: Python's own audit events say when it makes, opens, links and forks what
the run directory's layout promises, and the conductor and the agent, forks of this process, inherit the hook. NOTES
gets one line for each first sighting in each process: `stage seconds-since-1970`. RUNS is where the run is made.
"""

import os
import sys
import time

_notes, _runs, *_words = sys.argv[1:]
_pid = os.getpid()
_seen = set()
_MARKS = (("/code.json", "snapshot"), ("/conductor.log", "conductor"), ("/events/node-0000", "agent"))


def note(stage: str) -> None:
    if stage not in _seen:
        _seen.add(stage)
        now = time.time()
        file = os.open(_notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b"%s %.6f\n" % (stage.encode(), now))
        os.close(file)


def hook(event: str, values: tuple) -> None:
    if event == "open":
        path, _, flags = values
        if isinstance(path, str) and path.startswith(_runs):
            if path.endswith("/result.json"):
                _seen.discard("look")
                note("look")
            elif flags & os.O_CREAT:
                for mark, stage in _MARKS:
                    if mark in path:
                        note(stage)
    elif event == "os.mkdir":
        if values[0].startswith(_runs):
            note("run")
    elif event == "os.fork":
        note("fork")
    elif event == "os.posix_spawn":
        if os.getpid() != _pid:
            note("spawn")
    elif event == "os.link" and str(values[1]).endswith("/result.json"):
        note("result")


note("started")
from worldsize.cli.main import run  # noqa: E402

note("imported")
sys.addaudithook(hook)
sys.argv = ["worldsize", *_words]
run()
