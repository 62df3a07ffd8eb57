"""Runs the corpus: do the programs that hang really hang, where the table says, and do the healthy ones end?

PYTHONPATH=tests python -m hangs.check                      each case that hangs
PYTHONPATH=tests python -m hangs.check loader-fifo mpi-ring these
PYTHONPATH=tests python -m hangs.check --healthy            one healthy case of each kind; --every: all of them
PYTHONPATH=tests python -m hangs.check --list               what there is
"""

from __future__ import annotations

import argparse
import signal
import sys

from hangs.cases import HangCase, all_cases
from hangs.harness import Verdict, finish, lacks, watch
from hangs.healthy import HealthyCase, all_healthy, one_of_each_kind


def asked(words: argparse.Namespace) -> list[HangCase | HealthyCase]:
    """The cases that were asked for; a word may also be the beginning of ids."""
    if not words.ids:
        if words.healthy:
            return list(all_healthy() if words.every else one_of_each_kind())
        return list(all_cases())
    every: list[HangCase | HealthyCase] = [*all_cases(), *all_healthy()]
    found = []
    for word in words.ids:
        mine = [each for each in every if each.id == word] or [each for each in every if each.id.startswith(word)]
        if not mine:
            sys.exit("no case %s: --list shows them" % word)
        found += mine
    return found


def check(case: HangCase | HealthyCase, words: argparse.Namespace) -> Verdict | None:
    """None where this machine lacks what the case needs."""
    missing = lacks(case.needs)
    if missing:
        print("%s: left out: %s" % (case.id, missing), flush=True)
        return None
    try:
        if isinstance(case, HangCase):
            return watch(case, words.watch, words.look)
        return finish(case, words.limit)
    except Exception as error:  # noqa: BLE001  the other cases have their turn
        return Verdict(case.id, "", 0.0, ("%s: %s" % (type(error).__name__, error),))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m hangs.check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="cases, or how their ids begin (default: all that hang)")
    parser.add_argument("--healthy", action="store_true", help="one healthy case of each kind")
    parser.add_argument("--every", action="store_true", help="with --healthy: every case")
    parser.add_argument("--watch", type=float, default=6, metavar="SECONDS", help="how long nothing may happen")
    parser.add_argument("--limit", type=float, default=2, metavar="SECONDS", help="by which healthy cases are scaled")
    parser.add_argument("--look", default="", metavar="PY-SPY", help="hold the places against the table by this py-spy")
    parser.add_argument("--list", action="store_true")
    words = parser.parse_args(argv)
    if words.list:
        for hang in all_cases():
            print(hang.id, hang.world, "ranks", sorted(hang.ranks) or "unknown", hang.kind, hang.place, hang.why)
        for healthy in all_healthy():
            print(healthy.id, healthy.world, healthy.why)
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    cases, wrong = asked(words), 0
    for index, case in enumerate(cases, 1):
        verdict = check(case, words)
        if verdict is None:
            continue
        print("[%d/%d] %s: %s (%.1f s)" % (index, len(cases), verdict.case, verdict.state, verdict.seconds), flush=True)
        for line in verdict.wrong:
            print("    WRONG: %s" % line, flush=True)
        wrong += bool(verdict.wrong)
    print("%d cases, %d wrong" % (len(cases), wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
