"""Looks at the corpus from outside as the watch over a run does, and holds the verdicts against the table.

PYTHONPATH=src:tests python -m hangs.evaluation                    each case that hangs
PYTHONPATH=src:tests python -m hangs.evaluation loader native-     these, or those whose ids begin so
PYTHONPATH=src:tests python -m hangs.evaluation --healthy          one healthy case of each kind; --every: all of them

py-spy is found by PATH. A case is recorded in the folder that --recordings names, and read from there where it has been
recorded before, so that a changed rule is tried at once. --real starts cases by `worldsize run`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hangs.cases import ANOTHER, NEVER, START, STAYS, HangCase, all_cases
from hangs.forked_ranks import Mother
from hangs.harness import lacks
from hangs.healthy import HealthyCase, all_healthy, one_of_each_kind
from hangs.recordings import HERTZ, Recording, Sample, read_recording, record, write_recording
from worldsize.wings.hangs.judgement.finding import Finding
from worldsize.wings.hangs.judgement.process_states import RankState, process_findings
from worldsize.wings.hangs.judgement.recorder.flight_recorder import read_dump
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings
from worldsize.wings.hangs.judgement.stacks.stack_witness import StackJudgement, judge_stacks
from worldsize.wings.hangs.judgement.verdict import Verdict, hang_verdict
from worldsize.wings.hangs.judgement.watch import NodeSigns, Watch

KINDS = {NEVER: "H1", ANOTHER: "H2", STAYS: "H3", START: "H1"}
LIMIT = 3.0
QUIET_BYTES = 4096
SILENT = 1.0

RIGHT, KIND, WRONG, UNKNOWN, ALIVE = "right", "right ranks, other kind", "WRONG", "unknown", "alive"
RIGHT_UNKNOWN = "rightly unknown"
"""Nobody can say which rank it is, and nobody does."""


class Outcome(NamedTuple):
    """How a case was judged. place: whether the line was right, None where there is none; said: the verdict."""

    case: str
    outcome: str
    place: bool | None
    ranks: tuple[int, ...]
    kind: str | None
    said: str


def _judgement(
    pair: tuple[Sample, Sample], world: int, history: list[StackJudgement], silent: float | None = None
) -> StackJudgement:
    before, after = pair
    former = [each.summary for each in history]
    return judge_stacks(before.stacks, after.stacks, world, LIMIT, after.ended, former, HERTZ, silent)


def _verdict(
    judgement: StackJudgement, sample: Sample, recording: Recording, world: int, without_recorder: bool
) -> Verdict:
    states = {each.rank: RankState(None, each.state) for each in sample.stacks if each.parent is None}
    states.update({rank: RankState(code, "") for rank, code in sample.ended.items()})
    dumps = [read_dump(data, rank, recording.samples[-1].at) for rank, data in recording.dumps.items()]
    recorded = recorder_findings(dumps, world) if dumps and not without_recorder else []
    found: list[Finding] = [*judgement.findings, *process_findings(states), *recorded]
    return hang_verdict(found)


def judge_hang(case: HangCase, recording: Recording, without_recorder: bool = False) -> Outcome:
    """Judges look after look, until one says that the run hangs."""
    history: list[StackJudgement] = []
    samples = recording.samples
    for pair in zip(samples[::2], samples[1::2], strict=False):
        history.append(_judgement(pair, case.ranks_in_all, history))
        if not history[-1].alive:
            break
    last = history[-1]
    if last.alive:
        return Outcome(case.id, ALIVE, None, (), None, last.reason)
    verdict = _verdict(last, pair[1], recording, case.ranks_in_all, without_recorder)
    said = "%s [%s]" % (verdict.sentence, "; ".join("%s: %s" % (each.witness, each.text) for each in last.findings))
    if not verdict.ranks:
        return Outcome(case.id, UNKNOWN if case.ranks else RIGHT_UNKNOWN, None, (), None, said)
    if set(verdict.ranks) != set(case.ranks):
        return Outcome(case.id, WRONG, None, verdict.ranks, verdict.kind, said)
    outcome = RIGHT if verdict.kind == KINDS[case.kind] else KIND
    place = None
    if not case.ended and case.place is not None:
        found = verdict.place and "%s:%d" % verdict.place[:2]
        place = bool(found and found.endswith("/" + case.place))
    return Outcome(case.id, outcome, place, verdict.ranks, verdict.kind, said)


def judge_healthy(case: HealthyCase, recording: Recording) -> Outcome:
    """Judges when the watch would look; and, of ranks that compute or move bytes, whenever nothing has been heard of
    the run for a second: it may not be called stuck then, whatever the watch's limit is."""
    nodes, _, each = case.world.partition("x")
    world = int(nodes) * int(each)
    wrong, looks = _watched(recording, world)
    if case.sign.startswith(("processor", "disk", "network")):
        since, signs = recording.began, recording.samples[0].signs
        for pair in itertools.pairwise(recording.samples):
            if _is_sign(signs, pair[0], pair[0].at - since):
                since, signs = pair[0].at, pair[0].signs
            if pair[0].at - since < SILENT or not any(size for _, size in pair[0].signs.values()):
                continue
            judgement, looks = _judgement(pair, world, []), looks + 1
            if not judgement.alive:
                wrong.append("at %.1f s: %s" % (pair[1].at - recording.began, judgement.reason))
    said = "\n        ".join(["%d looks" % looks, *wrong])
    return Outcome(case.id, WRONG if wrong else RIGHT, None, (), None, said)


def _watched(recording: Recording, world: int) -> tuple[list[str], int]:
    """What the watch would have said, and how often it would have looked."""
    first = recording.samples[0]
    watch = Watch(LIMIT, first.at)
    signs, since = first.signs, first.at
    history: list[StackJudgement] = []
    looks = 0
    taken: dict[int, Sample] = {}
    wrong = []
    for sample in recording.samples:
        if _is_sign(signs, sample, sample.at - since):
            history.clear()
            signs, since = sample.signs, sample.at
        ranks = tuple(each.rank for each in sample.stacks if each.parent is None)
        spoke = any(size for _, size in sample.signs.values())
        for _ in range(3):
            step = watch.step({0: NodeSigns(sample.at - since, spoke, ranks)}, [0], sample.at)
            if step is None:
                break
            if step.action == "sample":
                taken[step.number] = sample
                watch.note_answer(0, step.number)
            elif step.action == "judge":
                pair = (taken[step.numbers[0]], taken[step.numbers[1]])
                judgement = _judgement(pair, world, history, sample.at - since)
                history.append(judgement)
                looks += 1
                watch.note_judgement(not judgement.alive, sample.at)
                if not judgement.alive:
                    wrong.append("the watch at %.1f s: %s" % (sample.at - recording.began, judgement.reason))
    return wrong, looks


def _is_sign(signs: dict[int, tuple[int, int]], sample: Sample, seconds: float) -> bool:
    for rank, (moved, size) in sample.signs.items():
        known = signs.get(rank, (0, 0))
        if size != known[1] or abs(moved - known[0]) > QUIET_BYTES * max(1.0, seconds):
            return True
    return False


def _asked(words: argparse.Namespace) -> list[HangCase | HealthyCase]:
    if not words.ids:
        if words.healthy:
            return list(all_healthy() if words.every else one_of_each_kind())
        return list(all_cases())
    every: list[HangCase | HealthyCase] = [*all_cases(), *all_healthy()]
    return [each for each in every if any(each.id == word or each.id.startswith(word) for word in words.ids)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m hangs.evaluation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="cases, or how their ids begin (default: all that hang)")
    parser.add_argument("--healthy", action="store_true", help="one healthy case of each kind")
    parser.add_argument("--every", action="store_true", help="with --healthy: every case")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="the first N cases only")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="where recordings are kept")
    parser.add_argument("--only-recorded", action="store_true", help="judge what has been recorded, start nothing")
    parser.add_argument("--without-recorder", action="store_true", help="as if no rank wrote a dump")
    parser.add_argument("--real", action="store_true", help="start cases by worldsize run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where each outcome goes, a line of JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what was said of each case")
    words = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="hangs-") as temporary:
        folder: Path = words.recordings or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cases = _asked(words)
        if words.only_recorded:
            cases = [case for case in cases if (folder / (case.id + ".jsonl")).exists()]
        outcomes = _evaluate(cases[: words.limit or None], folder, words)
    if words.out:
        words.out.write_text("".join(json.dumps(each._asdict()) + "\n" for each in outcomes))
    counts = Counter(each.outcome for each in outcomes)
    lines = [each.place for each in outcomes if each.place is not None]
    print("%d cases: %s" % (len(outcomes), ", ".join("%s %d" % item for item in counts.most_common())))
    if lines:
        print("lines: %d right of %d" % (sum(lines), len(lines)))
    return 1 if counts[WRONG] else 0


def _evaluate(cases: list[HangCase | HealthyCase], folder: Path, words: argparse.Namespace) -> list[Outcome]:
    outcomes = []
    mother: Mother | None = None
    for case in cases:
        path = folder / (case.id + ".jsonl")
        missing = lacks(case.needs)
        if not path.exists():
            if missing or (case.needs == "mpi" and not words.real):
                print("%s: left out: %s" % (case.id, missing or "mpirun has to start it: --real"))
                continue
            mother = mother or Mother()
            began = time.monotonic()
            recording, problem = record(mother, case, LIMIT, words.real)
            if recording is None:
                print("%s: left out: %s" % (case.id, problem), flush=True)
                continue
            write_recording(recording, path)
            print("%s: recorded, %.1f s" % (case.id, time.monotonic() - began), flush=True)
        recording = read_recording(path)
        if isinstance(case, HangCase):
            outcome = judge_hang(case, recording, words.without_recorder)
        else:
            outcome = judge_healthy(case, recording)
        outcomes.append(outcome)
        line = {True: "line right", False: "line WRONG", None: ""}[outcome.place]
        print("%-38s %-24s %s" % (case.id, outcome.outcome, line), flush=True)
        if words.verbose or outcome.outcome in (WRONG, UNKNOWN, ALIVE, KIND) or outcome.place is False:
            expected = " (%s %s)" % (sorted(case.ranks), KINDS[case.kind]) if isinstance(case, HangCase) else ""
            print("        %s %s%s: %s" % (list(outcome.ranks), outcome.kind or "", expected, outcome.said), flush=True)
    if mother is not None:
        mother.close()
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
