"""Phases without a sign of life; one of which only the lines that it prints are a sign; and two whose stacks show what
takes long."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time

import torch
from pace import DURATION
from ranks import words


def sleeping() -> None:
    time.sleep(DURATION)


def tuner() -> None:
    """A program is asked for the next parameters and takes its time."""
    answer = subprocess.run(["sh", "-c", "sleep %g; echo 0.1" % DURATION], capture_output=True, text=True, check=True)
    float(answer.stdout)


def file() -> None:
    """Another program is about to write a file; the rank looks for it now and then."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = os.path.join(folder, "ready")
        writer = subprocess.Popen(["sh", "-c", "sleep %g; echo >%s" % (DURATION, path)])
        while not os.path.exists(path):
            time.sleep(0.1)
        writer.wait()


def event() -> None:
    """A thread tells when an upload is done."""
    done = threading.Event()
    threading.Timer(DURATION, done.set).start()
    done.wait()


def printing() -> None:
    """Each attempt to connect is a line."""
    end = time.monotonic() + DURATION
    while time.monotonic() < end:
        print("no connection yet", flush=True)
        time.sleep(words.limit * 0.3)


def slow_save() -> None:
    """A checkpoint goes where nothing is taken for long."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = os.path.join(folder, "model.pt")
        os.mkfifo(path)
        reader = subprocess.Popen(["sh", "-c", "sleep %g; cat %s >/dev/null" % (DURATION, path)])
        torch.save({"weight": torch.ones(4)}, path)
        reader.wait()


def slow_build() -> None:
    """A program with the name of a build tool waits for a machine that compiles for it."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        program = os.path.abspath(os.path.join(folder, "ninja"))
        with open(program, "w") as file:
            file.write("#!/bin/sh\nread answer <%s/answer\n" % os.path.abspath(folder))
        os.chmod(program, 0o755)
        os.mkfifo(os.path.join(folder, "answer"))
        machine = subprocess.Popen(["sh", "-c", "sleep %g; echo done >%s/answer" % (DURATION, folder)])
        subprocess.run([program], check=True)
        machine.wait()


PHASES = {
    "sleeping": sleeping,
    "tuner": tuner,
    "file": file,
    "event": event,
    "printing": printing,
    "slow-save": slow_save,
    "slow-build": slow_build,
}
