"""Verdict whether a converted training does the same as the original, from the records of their first steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from worldsize.wings.convert.check.records import ERROR, TIMEOUT, Backward, Place, Record
from worldsize.wings.convert.check.trials import Trials

ORIGINAL, CONVERTED = "original", "converted"
_EXACT, _LOW_PRECISION = 1e-3, 0.05
"""The largest relative difference of two equal figures: for float32 sums in another order, and for float16."""
_SLIGHT = 0.02
"""The relative difference that a mean of means may have if samples have different weights."""


class Finding(NamedTuple):
    """A difference between the original and the converted training, or a problem. `version` is the text that contains
    the place, ORIGINAL or CONVERTED."""

    is_error: bool
    text: str
    version: str = ORIGINAL
    place: Place | None = None


class Verdict(NamedTuple):
    """The verdict of `convert --check`. `summary` states what is the same, if nothing is wrong. `obstacle` is the
    reason why nothing could be compared."""

    findings: tuple[Finding, ...] = ()
    summary: str = ""
    obstacle: Finding | None = None


def judge(trials: Trials) -> Verdict:
    original = trials.original
    if not original.steps:
        return Verdict(obstacle=Finding(True, f"not checked: {_why_no_step(original)}", ORIGINAL, original.place))
    if trials.too_slow:
        text = f"not checked: {trials.too_slow}; --timeout SECONDS allows more"
        return Verdict(obstacle=Finding(True, text))
    for ranks in (trials.alone, trials.two):
        failed = _find_failure(ranks, len(original.steps))
        if failed:
            return Verdict((failed,))
    comparison = _Comparison(original)
    comparison.compare_alone(trials.alone[0])
    comparison.compare_ranks(trials.two)
    return Verdict(tuple(comparison.findings), comparison.summary(trials.two))


def _why_no_step(original: Record) -> str:
    if original.end == TIMEOUT:
        return "the original makes no step of an optimizer in time; --timeout SECONDS allows more"
    if original.end == ERROR:
        return f"the original does not run: {original.text}"
    return "the original ends without a step of an optimizer: does it need arguments, after --?"


def _find_failure(ranks: Sequence[Record], steps: int) -> Finding | None:
    """Return a Finding with the reason why a rank of the converted training, of those in `ranks`, ended before it made
    `steps` steps; None if all ranks made them. If some ranks waited until the timeout, these are reported, because the
    failures of other ranks follow from that."""
    where = f"on {len(ranks)} rank{'s' * (len(ranks) > 1)}"
    waiting = [rank for rank in ranks if rank.end == TIMEOUT]
    failed = [rank for rank in ranks if rank.end == ERROR]
    if failed and not waiting:
        first = min(failed, key=lambda rank: rank.place is None)
        return Finding(True, f"{where} it does not run: {first.text}", CONVERTED, first.place)
    if waiting:
        places = {rank.place for rank in waiting if rank.place}
        others = ", ".join(f"{place.path}:{place.line}" for place in sorted(places - {waiting[0].place}))
        apart = f"; another rank waits at {others}" if others else ""
        return Finding(True, f"{where} it does not reach {steps} steps in time{apart}", CONVERTED, waiting[0].place)
    for rank in ranks:
        if len(rank.steps) < steps:
            text = f"{where} it ends after {len(rank.steps)} steps, and the original after {steps}"
            return Finding(True, text, CONVERTED, _last_place(rank))
    return None


def _last_place(record: Record) -> Place | None:
    places = [each.place for step in record.steps for each in step.backwards if each.place]
    return places[-1] if places else None


class _Comparison:
    def __init__(self, original: Record) -> None:
        self._original = original
        self.findings: list[Finding] = []
        self._allowed = _LOW_PRECISION if original.has_low_precision else _EXACT
        self._differs = False

    def compare_alone(self, alone: Record) -> None:
        for step, other in zip(self._original.steps, alone.steps, strict=False):
            if not _is_near(step.gradient, other.gradient, self._allowed):
                text = f"on 1 rank its gradients differ: {step.gradient:.6g} becomes {other.gradient:.6g}"
                self.findings.append(Finding(True, text, ORIGINAL, _place_of(step.backwards)))
                return

    def compare_ranks(self, ranks: Sequence[Record]) -> None:
        self._compare_work(ranks)
        for number, step in enumerate(self._original.steps):
            steps = [rank.steps[number] for rank in ranks]
            place = _place_of(step.backwards)
            if not _is_near(steps[0].weights, steps[1].weights, 1e-6):
                text = f"the ranks' weights differ after step {number + 1}: {steps[0].weights!r}, {steps[1].weights!r}"
                self.findings.append(Finding(True, text, ORIGINAL, place))
                return
            if {len(each.backwards) for each in steps} != {len(step.backwards)}:
                counts = " and ".join(str(len(each.backwards)) for each in steps)
                text = f"before step {number + 1} it has {len(step.backwards)} backward passes, on 2 ranks {counts}"
                self.findings.append(Finding(True, text, ORIGINAL, place))
                return
            if self._compare_losses(step.backwards, [each.backwards for each in steps]):
                return
            for what, own, theirs in (
                ("gradients", step.gradient, steps[0].gradient), ("weights", step.change, steps[0].change)
            ):  # fmt: skip
                if not _is_near(own, theirs, self._allowed):
                    self._note_difference(f"{what} of step {number + 1}", own, theirs, place)
                    return

    def _compare_work(self, ranks: Sequence[Record]) -> None:
        """Add a Finding if each rank of the converted training works on all of the samples of the original instead of a
        part."""
        whole = _samples(self._original)
        parts = sum(_samples(rank) for rank in ranks)
        backwards = [each for step in self._original.steps for each in step.backwards]
        place = _place_of(backwards)
        if not whole and _losses(ranks[0]) == _losses(ranks[1]) == _losses(self._original):
            text = "each rank computes all of each batch: the work is not divided"
            self.findings.append(Finding(True, text, ORIGINAL, place))
        elif whole and parts >= len(ranks) * whole:
            if any(len(each.samples) and not len(each.samples) % len(ranks) for each in backwards):
                text = (
                    f"each rank works on all samples, {whole} in {len(self._original.steps)} steps: nothing is divided"
                )
                self.findings.append(Finding(True, text, ORIGINAL, place))
            else:
                size = len(backwards[0].samples)
                text = f"batches of {size} samples are not divided by 2 ranks: each works on all of them"
                self.findings.append(Finding(False, text, ORIGINAL, place))

    def _compare_losses(self, own: Sequence[Backward], theirs: Sequence[Sequence[Backward]]) -> bool:
        """Record a loss of a whole batch (`own`, of the original) that is neither the mean nor the sum of the losses of
        its parts (`theirs`, one list for each rank). Return whether there is one."""
        for number, backward in enumerate(own):
            losses = [each[number].loss for each in theirs]
            mean = sum(losses) / len(losses)
            if not any(_is_near(backward.loss, each, self._allowed) for each in (mean, sum(losses))):
                self._note_difference("the loss", backward.loss, mean, backward.place)
                return True
        return False

    def _note_difference(self, what: str, own: float, theirs: float, place: Place | None) -> None:
        self._differs = True
        apart = abs(own - theirs) / max(abs(own), abs(theirs))
        is_error = not self._original.is_random and apart > max(_SLIGHT, self._allowed)
        why = "" if is_error else ": the mean of the ranks' means, where samples weigh differently"
        if self._original.is_random:
            why = ": random numbers are drawn in each pass, differently on each rank"
        text = f"{what}: {own:.6g} by itself, {theirs:.6g} on 2 ranks ({100 * apart:.2g} %){why}"
        self.findings.append(Finding(is_error, text, ORIGINAL, place))

    def summary(self, ranks: Sequence[Record]) -> str:
        """Return the summary of the comparison: a text that states which figures of the original and the converted
        training are the same on 2 ranks; "" if something is wrong."""
        if any(finding.is_error for finding in self.findings):
            return ""
        count = len(self._original.steps)
        steps = f"{count} step{'s' * (count > 1)}"
        whole = _samples(self._original)
        shared = f"; each rank worked on {_samples(ranks[0])} of {whole} samples" if whole else ""
        off = " (BatchNorm's statistics were switched off: they are computed from each rank's part)"
        off = off if self._original.has_batch_norm else ""
        if self._differs:
            return f"weights are equal on 2 ranks after each of {steps}{shared}{off}"
        return f"losses, gradients and weights of {steps} on 2 ranks equal those of one process{shared}{off}"


def _is_near(one: float, other: float, relative: float) -> bool:
    if one != one or other != other:
        return one != one and other != other  # both are NaN
    return abs(one - other) <= relative * max(abs(one), abs(other)) + 1e-12


def _samples(record: Record) -> int:
    return sum(len(each.samples) for step in record.steps for each in step.backwards)


def _losses(record: Record) -> list[float]:
    return [each.loss for step in record.steps for each in step.backwards]


def _place_of(backwards: Sequence[Backward]) -> Place | None:
    return next((each.place for each in backwards if each.place), None)
