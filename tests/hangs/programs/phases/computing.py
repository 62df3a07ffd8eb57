"""Phases of work, in this process and in others."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import torch
from pace import DURATION, SEED, until_over

LOOP = "import sys, time; end = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: sum(range(10000))"


def python() -> None:
    words: dict[int, int] = {}
    for number in until_over():
        for word in range(5000):
            words[word * number % 9973] = words.get(word, 0) + 1


def numpy() -> None:
    matrix = np.random.default_rng(SEED).standard_normal((200, 200))
    for _ in until_over():
        matrix = np.tanh(matrix @ matrix.T / 200)


def native() -> None:
    """By torch."""
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():
        for _ in until_over():
            net(torch.randn(512, 256)).argmax(1)


def one_call() -> None:
    """A single call of numpy, whose work grows with the square of its size."""
    size = 20_000
    began = time.monotonic()
    np.correlate(np.ones(size), np.ones(size), "full")
    size = int(size * (DURATION / (time.monotonic() - began)) ** 0.5)
    np.correlate(np.ones(size), np.ones(size), "full")


def interpreter_held() -> None:
    """A single call that holds the interpreter's lock all the time."""
    began = time.monotonic()
    sum(range(1_000_000))
    sum(range(int(1_000_000 * DURATION / (time.monotonic() - began))))


def garbage() -> None:
    kept = [[index] for index in range(300_000)]
    for _ in until_over():
        gc.collect()
    kept.clear()


def process() -> None:
    subprocess.run([sys.executable, "-c", LOOP, str(DURATION)], check=True)


def _tokenize(number: int) -> int:
    return len(" ".join(str(each * number) for each in range(20_000)).split())


def pool() -> None:
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for number in until_over():
            workers.map(_tokenize, range(number, number + 4))


def thread() -> None:
    worker = threading.Thread(target=python)
    worker.start()
    worker.join()


def compiler() -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = os.path.join(folder, "kernel.c")
        for number in until_over():
            with open(source, "w") as file:
                file.writelines(
                    "int f%d(int x) { return x * %d + %d; }\n" % (each, each, number) for each in range(500)
                )
            subprocess.run(["cc", "-O2", "-c", source, "-o", source + ".o"], check=True)


def bytecode() -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        with open(os.path.join(folder, "module.py"), "w") as file:
            file.writelines("def f%d(x):\n    return x * %d\n" % (each, each) for each in range(3000))
        for _ in until_over():
            subprocess.run([sys.executable, "-m", "compileall", "-q", "-f", folder], check=True)


def inductor() -> None:
    """torch.compile, which takes as long as it takes."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath(folder)
        torch.compile(lambda x: (x.sin() * SEED + x.cos()).sum())(torch.ones(10))


PHASES = {
    "python": python,
    "numpy": numpy,
    "torch": native,
    "one-call": one_call,
    "interpreter-held": interpreter_held,
    "garbage": garbage,
    "process": process,
    "pool": pool,
    "thread": thread,
    "compiler": compiler,
    "bytecode": bytecode,
    "inductor": inductor,
}
