"""What trials of faults are made of, from their numbers alone, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.kinds import CANCELLED, EXIT_CODE, KINDS, NODE, SIGNAL, SUCCESS, Kind
from chaos.ledger import Ledger, table
from chaos.plans import CAUSES, Trial, trial
from chaos.trials import Verdict

from worldsize.state.records import Reason, RunState

MANY = [trial(compute, seed, number) for compute in KINDS for seed in (1, 2) for number in range(300)]


def verdict(number: int, kind: str = "rank KILL", compute: str = "local", **fields: object) -> Verdict:
    values = {"hit": 1, "state": "FAILED", "reason": "SIGNAL", "orphans": 0, "wrong": (), "seconds": 1.0, **fields}
    name = "%s-1-%d" % (compute, number)
    return Verdict(trial=name, compute=compute, kind=kind, words="", directory="", **values)  # type: ignore[arg-type]


def test_a_number_is_always_the_same_trial() -> None:
    assert [trial("slurm", 7, number) for number in range(50)] == [trial("slurm", 7, number) for number in range(50)]
    assert trial("slurm", 7, 3) != trial("slurm", 8, 3)


@pytest.mark.parametrize("compute", KINDS)
def test_kinds_take_turns(compute: str) -> None:
    kinds = KINDS[compute]
    struck = [trial(compute, 3, number).strikes[0] for number in range(len(kinds))]
    assert [(strike.victim, strike.how) for strike in struck] == [(kind.victim, kind.how) for kind in kinds]


@pytest.mark.parametrize("kind", [kind for kinds in KINDS.values() for kind in kinds])
def test_outcomes_are_final_states_with_reasons_that_there_are(kind: Kind) -> None:
    reasons = {value for name, value in vars(Reason).items() if name.isupper()}
    assert kind.outcomes and kind.jobs and kind.moments
    assert all(state in RunState.FINAL and reason in {None, *reasons} for state, reason in kind.outcomes)


def test_what_a_run_was_ended_for_already_stays_so() -> None:
    for each in MANY:
        if each.moment in CAUSES and each.job != "script":
            assert each.outcomes == {CAUSES[each.moment]}
    assert {each.moment for each in MANY} >= {"setup", "meeting", "line", "ending", "stopping", "cancelling"}


def test_of_two_faults_a_success_takes_two_that_do_no_harm() -> None:
    two = [each for each in MANY if len(each.strikes) == 2 and each.moment not in CAUSES]
    assert any(SUCCESS in each.outcomes for each in two) and any(SUCCESS not in each.outcomes for each in two)
    assert not any({SUCCESS} < each.outcomes for each in two)
    assert {CANCELLED, EXIT_CODE, NODE, SIGNAL} <= {outcome for each in MANY for outcome in each.outcomes}


def test_victims_are_there() -> None:
    for each in MANY:
        assert each.speaker < each.ranks
        for strike in each.strikes:
            among = each.ranks if strike.victim in ("rank", "child") else each.nodes
            assert strike.place < among
            assert each.moment not in ("ending", "stopping") or strike.victim != "rank" or strike.place > 0


def test_a_trial_says_what_it_is() -> None:
    said = Trial("slurm", 1, 17, "tree", "line", 1, 4, (), frozenset())
    assert str(said).startswith("slurm-1-17: tree, rank 1 has written line 4")


def test_a_ledger_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger.jsonl"))
    assert ledger.verdicts() == []
    ledger.add(verdict(1))
    ledger.add(verdict(2, wrong=("left: sleep",), orphans=1))
    with open(ledger.path, "a") as file:
        file.write('{"trial": "local-1-3", "comp')
    assert [each.trial for each in ledger.verdicts()] == ["local-1-1", "local-1-2"]
    ledger.add(verdict(4))
    assert [each.trial for each in ledger.verdicts()] == ["local-1-1", "local-1-2", "local-1-4"]


def test_the_last_word_on_a_trial_counts(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger.jsonl"))
    ledger.add(verdict(1, wrong=("x",)))
    ledger.add(verdict(1))
    assert ledger.verdicts() == [verdict(1)]


def test_the_table_counts_by_kind_and_compute() -> None:
    verdicts = [verdict(1), verdict(2, wrong=("x",)), verdict(3, "rank KILL and child KILL", orphans=2)]
    verdicts += [verdict(1, compute="slurm", hit=0)]
    assert table(verdicts).splitlines()[2:] == [
        "| rank KILL | local | 2 | 2 | 1 | 0 |",
        "| two at once | local | 1 | 1 | 0 | 2 |",
        "| rank KILL | slurm | 1 | 0 | 0 | 0 |",
        "| **all** | local | 3 | 3 | 1 | 2 |",
        "| **all** | slurm | 1 | 0 | 0 | 0 |",
    ]
