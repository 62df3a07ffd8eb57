"""Ids choose rows, and what has to be done for them."""

from worldsize.wings.checks.agent.node_checks import NODE_CHECKS
from worldsize.wings.checks.agent.selection import Selection, row_ids
from worldsize.wings.checks.agent.stage_table import STAGES


def names(entries):
    return [entry.module for entry in entries]


def test_a_row_is_wanted_by_its_id():
    selection = Selection("full", ("gpu.count", "clock"))
    assert selection.wants("gpu.count") and not selection.wants("gpu.ecc") and not selection.wants("gpu")
    assert Selection("full").wants("gpu.ecc")


def test_one_row_of_a_node_needs_one_probe():
    assert names(Selection("full", ("files.space",)).probes()) == ["disk"]
    assert Selection("full", ("files.space",)).stages() == []


def test_a_stage_brings_the_stages_and_the_probes_that_it_reads():
    selection = Selection("full", ("collective.result",))
    assert names(selection.stages()) == ["listen", "collective"]
    assert "imports" in names(selection.probes())


def test_the_cheap_form_has_no_expensive_part():
    selection = Selection("cheap")
    assert {"share", "pairs", "collective"}.isdisjoint(names(selection.stages()))
    assert {"imports", "internet"}.isdisjoint(names(selection.probes()))
    assert "reach" in names(selection.stages())


def test_the_ids_of_all_rows_are_listed_once():
    assert len(row_ids()) == len(set(row_ids()))
    assert {"gpu.count", "clock", "node"} <= set(row_ids())


def test_the_tables_name_what_there_is():
    modules, probes = names(STAGES), names(NODE_CHECKS)
    assert all(set(entry.needs) <= set(modules[:index]) for index, entry in enumerate(STAGES))
    assert all(set(entry.reads) <= set(probes) for entry in STAGES)
