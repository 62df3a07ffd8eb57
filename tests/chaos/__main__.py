"""make chaos N=1000 SEED=1: so many trials, half on virtual nodes and half on the Slurm cluster of the tests.

python -m chaos --trials 1000 --seed 1            goes on where the ledger of this seed stops
python -m chaos --trial slurm-1-17                one trial again
python -m chaos --table                           what the ledger holds, as Markdown
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from chaos.ledger import Ledger, table
from chaos.plans import Trial, trial
from chaos.trials import Verdict, carry_out
from chaos.worlds import World

COMPUTES = ("local", "slurm")


@contextmanager
def world_of(compute: str, folder: str) -> Iterator[World]:
    if compute == "local":
        from chaos.local_world import LocalWorld

        yield LocalWorld(folder)
    else:
        from chaos.slurm_world import slurm_world

        with slurm_world() as world:
            yield world


def asked(words: argparse.Namespace) -> list[Trial]:
    """The trials that were asked for; each compute has its own numbers from 0."""
    if words.trial:
        compute, seed, number = words.trial.rsplit("-", 2)
        return [trial(compute, int(seed), int(number))]
    computes = [words.compute] if words.compute else list(COMPUTES)
    return [trial(computes[index % len(computes)], words.seed, index // len(computes)) for index in range(words.trials)]


def tell(verdict: Verdict, done: int, of: int) -> None:
    ended = "%s %s" % (verdict.state, verdict.reason or "")
    print("[%d/%d] %s → %s (%.1f s)" % (done, of, verdict.words, ended.strip(), verdict.seconds), flush=True)
    for words in verdict.wrong:
        print("    WRONG: %s" % words)
    if verdict.wrong:
        print("    kept in %s; again: make chaos TRIAL=%s" % (verdict.directory, verdict.trial), flush=True)


def work(trials: list[Trial], ledger: Ledger, folder: str) -> int:
    """Carries them out one after the other; how many were wrong."""
    wrong = 0
    for compute in sorted({each.compute for each in trials}):
        mine = [each for each in trials if each.compute == compute]
        with world_of(compute, folder) as world:
            for done, each in enumerate(mine, 1):
                verdict = carry_out(world, each, folder)
                ledger.add(verdict)
                tell(verdict, done, len(mine))
                wrong += bool(verdict.wrong)
    return wrong


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=60, metavar="N")
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--compute", choices=COMPUTES)
    parser.add_argument("--trial", metavar="COMPUTE-SEED-NUMBER")
    parser.add_argument("--ledger", metavar="FILE", default=os.path.join("build", "chaos", "ledger.jsonl"))
    parser.add_argument("--workers", type=int, default=2, help="processes for each compute")
    parser.add_argument("--share", metavar="I/N", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true")
    words = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # what a trial has made is taken away
    os.makedirs(os.path.dirname(os.path.abspath(words.ledger)), exist_ok=True)
    ledger = Ledger(words.ledger)
    if words.table:
        print(table(ledger.verdicts()), end="")
        return 0
    known = set() if words.trial else {verdict.trial for verdict in ledger.verdicts()}
    trials = [each for each in asked(words) if each.id not in known]
    if words.share:
        index, of = map(int, words.share.split("/"))
        trials = [each for each in trials if each.number % of == index]
    if words.trial or words.share:
        folder = tempfile.mkdtemp(prefix="chaos-")
        os.chmod(folder, 0o755)  # the owner of a run is not always root
        return 1 if work(trials, ledger, folder) else 0
    return in_processes(words, trials, ledger)


def in_processes(words: argparse.Namespace, trials: list[Trial], ledger: Ledger) -> int:
    """Each worker has a cluster, or a folder, of its own."""
    began = time.monotonic()
    every = [each.compute for each in asked(words)]
    own = ["--seed", str(words.seed), "--ledger", words.ledger]
    workers = []
    for compute in sorted({each.compute for each in trials}):
        for index in range(words.workers):
            share = [
                "--compute",
                compute,
                "--trials",
                str(every.count(compute)),
                "--share=%d/%d" % (index, words.workers),
            ]
            workers.append(subprocess.Popen([sys.executable, "-m", "chaos", *own, *share]))
    try:
        for worker in workers:
            worker.wait()
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()
            worker.wait()
        return 130
    asked_for = {each.id for each in asked(words)}
    verdicts = [verdict for verdict in ledger.verdicts() if verdict.trial in asked_for]
    print(table(verdicts), end="")
    wrong = sum(bool(verdict.wrong) for verdict in verdicts)
    print("%d trials, %d wrong, %.0f s" % (len(verdicts), wrong, time.monotonic() - began))
    return 1 if wrong or len(verdicts) < len(asked_for) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
