"""One trial: start a run, wait for an event, strike, wait for the end, and hold what is said against what is true."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from typing import NamedTuple

from driver import wait_for

from chaos.kinds import SUCCESS, Outcome
from chaos.plans import Strike, Trial
from chaos.worlds import PATIENCE, Disturbance, Stage, World, pause, send

STARTS_WITHIN = 60.0
GONE_WITHIN = 30.0
_SAID = re.compile(r"^run \S+ (SUCCEEDED|FAILED|CANCELLED|LOST)(?: after [^:]*)?(?:: ([A-Z_]+))?", re.MULTILINE)


class Verdict(NamedTuple):
    """What a trial has come to. `wrong` is empty where all that was checked is as it should be.

    hit      how many of its faults met a victim: what has just ended cannot be struck any more
    orphans  processes that were left
    """

    trial: str
    compute: str
    kind: str
    words: str
    hit: int
    state: str
    reason: str | None
    orphans: int
    wrong: tuple[str, ...]
    seconds: float
    directory: str


def carry_out(world: World, trial: Trial, folder: str) -> Verdict:
    """The verdict of a trial. All that it has left is kept in the folder where something was wrong."""
    began = time.monotonic()
    with world.stage(trial) as stage:
        hit, outcome, wrong, orphans = 0, ("", None), [], 0
        done: list[Disturbance] = []
        try:
            _start(world, stage)
            _await_moment(stage)
            for strike in trial.strikes:
                hit += _strike(world, stage, strike, done)
            _let_go(stage, SUCCESS in _allowed(trial, hit) or _goes_unnoticed(trial))
            for each in [each for each in done if each.at_once]:
                done.remove(each)
                each.undo()
            if _goes_unnoticed(trial):
                _undo(done, world, stage)
            outcome, wrong = _ended(stage)
            allowed = _allowed(trial, hit)
            if outcome not in allowed:
                wrong.insert(0, "it is %s %s, and may be %s" % (*outcome, sorted(allowed, key=str)))
            wrong += _not_kept(stage)
            while done:
                done.pop().undo()  # a node without a network cannot be told that anything is over
            orphans, left = _left(world, stage)
            wrong += left
        except Exception as error:  # noqa: BLE001  a trial that cannot be carried out is told like any other
            wrong.append("%s: %s" % (type(error).__name__, error))
        finally:
            for each in done:
                each.undo()
            _end_everything(stage)
        kept = os.path.join(folder, trial.id)
        if wrong:
            os.makedirs(kept, exist_ok=True)
            subprocess.run(["cp", "-a", stage.cli.root + "/.", *_elsewhere(stage), kept], check=False)
        shutil.rmtree(stage.cli.root, ignore_errors=True)
    seconds = round(time.monotonic() - began, 1)
    return Verdict(
        trial.id,
        trial.compute,
        trial.kind,
        str(trial),
        hit,
        *outcome,
        orphans,
        tuple(wrong),
        seconds,
        kept if wrong else "",
    )


def _elsewhere(stage: Stage) -> list[str]:
    """The runs, where they do not lie beside the project."""
    away = not stage.cli.home.startswith(stage.cli.root + "/") and os.path.exists(stage.cli.home)
    return [stage.cli.home] if away else []


def _start(world: World, stage: Stage) -> None:
    trial, cli = stage.trial, stage.cli
    job = world.job(stage)
    if trial.moment in ("stopping", "cancelling"):
        stage.say("stubborn")
    if any(strike.victim == "client" or strike.how == "removed" for strike in trial.strikes):
        stage.client = cli.start("run", "-q", *job)
        wait_for(lambda: cli.json("list", "-n", "1"), STARTS_WITHIN)
        stage.run = cli.latest()
    else:
        stage.run = world.submit(stage, job)
    if trial.job == "array":
        array = stage.run
        stage.run = array + "_0"
        stage.others = [array + "_1"]


def _await_moment(stage: Stage) -> None:
    trial = stage.trial
    if trial.moment == "setup":
        wait_for(lambda: stage.was_told("in-setup"), STARTS_WITHIN)
        return
    if trial.moment == "meeting":
        wait_for(lambda: stage.events("agent_started"), STARTS_WITHIN)
        return
    if trial.moment == "line":
        words = "rank %d%s line %d" % (trial.speaker, " worker 1" * (trial.job == "tree"), trial.line)
        wait_for(lambda: stage.has_written(trial.speaker, words), STARTS_WITHIN)
        return
    for rank in range(trial.ranks):
        wait_for(lambda rank=rank: stage.has_written(rank, " line 2"), STARTS_WITHIN)  # type: ignore[misc]
    if trial.moment == "ending":
        stage.say("leave-0")
        wait_for(lambda: stage.events("rank_exited"), STARTS_WITHIN)
        return
    if trial.moment == "stopping":
        stage.say("fail-0")
    else:
        stage.cli.ok("cancel", stage.run)
    wait_for(lambda: any("told to end" in text for text in stage.notes().values()), STARTS_WITHIN)


def _undo(done: list[Disturbance], world: World, stage: Stage) -> None:
    """Of a directory that nobody may read, nobody can ask: it is opened once all have ended."""
    wait_for(lambda: not world.left(stage, stage.run), GONE_WITHIN, raises=False)
    while done:
        done.pop().undo()


def _strike(world: World, stage: Stage, strike: Strike, done: list[Disturbance]) -> bool:
    """Whether it hit."""
    if strike.victim == "client":
        assert stage.client is not None
        stage.client.send_signal(signal.Signals["SIG" + strike.how])
        return True
    disturbance = world.disturb(stage, strike)
    if disturbance is not None:
        done.append(disturbance)
        return True
    victims = world.victims(stage, strike)
    if strike.how == "PAUSE":
        done.append(pause(victims))
    else:
        send(victims, signal.Signals["SIG" + strike.how])
    if strike.how == "STOP" and strike.victim == "rank":
        stage.cli.ok("cancel", stage.run)
    return bool(victims)


def _allowed(trial: Trial, hit: int) -> frozenset[Outcome]:
    """A fault that came too late has done no harm."""
    return trial.outcomes if hit == len(trial.strikes) else trial.outcomes | {SUCCESS}


def _goes_unnoticed(trial: Trial) -> bool:
    """Until the run ends by itself, and cannot say how."""
    return any(strike.how == "closed" for strike in trial.strikes)


def _let_go(stage: Stage, may_succeed: bool) -> None:
    """What is left of the run may begin; and end by itself, where no fault is to end it."""
    for name in ("gate", "meet", *(["go"] if may_succeed else [])):
        stage.say(name)
    if stage.others:
        stage.say("go-" + stage.others[0])


def _ended(stage: Stage) -> tuple[Outcome, list[str]]:
    """The final state and reason, and what is wrong with them."""
    cli, wrong = stage.cli, []
    if stage.client is not None and any(strike.how == "removed" for strike in stage.trial.strikes):
        out, err = stage.client.communicate(timeout=PATIENCE)
        said = _SAID.findall((out + err).decode(errors="replace"))
        if not said:
            return ("", None), ["the client said no state: %r" % (out + err)]
        state, reason = said[-1]
        return (state, reason or None), []
    cli("wait", stage.run, "--timeout", str(PATIENCE), timeout=PATIENCE + 30)
    status = cli.status(stage.run)
    if status["exit_code"] is None:
        wrong.append("it has not ended within %g s: %s %s" % (PATIENCE, status["state"], status["message"]))
    for other in stage.others:
        cli("wait", other, "--timeout", str(PATIENCE), timeout=PATIENCE + 30)
        found = cli.status(other)
        if (found["state"], found["reason"]) != SUCCESS:
            wrong.append("element %s, which nobody struck, is %s %s" % (other, found["state"], found["message"]))
    later = cli.status(stage.run)
    if (later["state"], later["reason"]) != (status["state"], status["reason"]):
        wrong.append("it was %s and is %s" % (status["state"], later["state"]))
    return (status["state"], status["reason"]), wrong


def _not_kept(stage: Stage) -> list[str]:
    """Lines that a rank has written and that its log does not hold, in that order."""
    if any(strike.how in ("removed", "closed") for strike in stage.trial.strikes):
        return []
    wrong = []
    for name, text in stage.notes().items():
        run, attempt, rank, _ = name.rsplit(".", 3)
        try:
            lines = iter(stage.log(run, attempt, rank).splitlines())
        except FileNotFoundError:
            lines = iter(())
        lost = [line for line in text.splitlines() if line not in lines]
        if lost:
            wrong.append("the log of rank %s (%s, attempt %s) lacks %r" % (rank, run, attempt, lost[0]))
    return wrong


def _left(world: World, stage: Stage) -> tuple[int, list[str]]:
    """How many processes of the run outlive it, and what is still held."""
    runs = [stage.run, *stage.others]
    left: list[str] = []

    def gone() -> bool:
        """For two looks: what is in the middle of an exec shows nothing of itself."""
        nonlocal left
        left = [words for _ in range(2) for run in runs for words in world.left(stage, run)]
        return not left

    wait_for(gone, GONE_WITHIN, raises=False)
    left = [words for run in runs for words in world.left(stage, run)] if left else []
    held = [words for run in runs for words in world.held(stage, run)]
    return len(left), ["left: %s" % " ".join(words.split())[:150] for words in left] + [
        "held: %s" % words for words in held
    ]


def _end_everything(stage: Stage) -> None:
    """So that what one trial leaves is not found by the next."""
    from chaos.worlds import of_run

    if stage.client is not None and stage.client.poll() is None:
        stage.client.kill()
    if stage.client is not None:
        stage.client.communicate()
    if stage.run:
        send([each.pid for each in of_run(stage.run.partition("_")[0])], signal.SIGKILL)
