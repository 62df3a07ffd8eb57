"""The schemas of what verbs print: one for each, whole, and as the code that writes the values has it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

from worldsize.cli.main import VERBS, build_parser, main
from worldsize.compute.capabilities import Change, ComputeNode, Usage, WaitExplanation
from worldsize.service.runs.status import RunState
from worldsize.state.check_rows import VERDICTS, CheckRow
from worldsize.state.records import Failure, RunWarning
from worldsize.store.output_files import OutputFile
from worldsize.store.summaries import Summary
from worldsize.trust.decisions import Decision
from worldsize.wings.azure.export.rows import ExportRow
from worldsize.wings.azure.key_table import KeyRow
from worldsize.wings.bench.result import BenchResult, Measurement, Table
from worldsize.wings.environments.conda.split_requirements import Proposal
from worldsize.wings.environments.inspect.installed import ClobberedFile
from worldsize.wings.hangs.judgement.stacks import wait_rules
from worldsize.wings.hpcpack.share_mount import Mount
from worldsize.wings.metrics import efficiency, usage
from worldsize.wings.metrics.series import Point
from worldsize.wings.project.command import complete_words
from worldsize.wings.project.verb_schemas import described_verbs, find_verb, verb_schema
from worldsize.wings.selftest.report import OUTCOMES, Verdict
from worldsize_conformance.json_check import asks_for_json, check_output, closed, problem

SCHEMAS = {verb: verb_schema(verb) for verb in described_verbs()}
TIMES = {"created_at", "started_at", "ended_at"}


def verbs_with_json(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """The names of a verb, and of its actions, that have `-o json`."""
    actions = [action for action in parser._actions if not action.option_strings and isinstance(action.choices, dict)]
    for action in actions:
        for word, one in action.choices.items():  # type: ignore[union-attr]
            yield from verbs_with_json("%s %s" % (name, word), one)
    if "--output" in parser._option_string_actions:
        words = [action.choices for action in parser._actions if not action.option_strings and action.choices]
        alone = name in SCHEMAS or not words
        yield from [name] if alone else ["%s %s" % (name, word) for word in words[0]]  # type: ignore[union-attr]


def parts(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema in a schema, with the path to it."""
    if isinstance(schema, list):
        for number, each in enumerate(schema):
            yield from parts(each, "%s/%d" % (path, number))
    elif isinstance(schema, dict):
        yield path, schema
        for key, value in schema.items():
            for name, each in value.items() if key in ("properties", "$defs") else [("", value)]:
                yield from parts(each, "/".join([path, key, name]))


def part(verb: str, *path: str | int) -> dict[str, Any]:
    """The schema at this path; what a step refers to is gone to."""
    found: Any = SCHEMAS[verb]
    for step in path:
        found = resolved(found, verb)[step]
    return resolved(found, verb)


def resolved(schema: Any, verb: str) -> Any:
    refers = isinstance(schema, dict) and "$ref" in schema
    return SCHEMAS[verb]["$defs"][schema["$ref"].rpartition("/")[2]] if refers else schema


def fields_of(kind: Any) -> set[str]:
    return set(getattr(kind, "_fields", None) or kind.__struct_fields__)


def test_each_verb_with_json_has_a_schema() -> None:
    parsers = build_parser(list(VERBS)).verbs
    found = [name for verb, parser in parsers.items() for name in verbs_with_json(verb, parser)]
    assert len(found) > 30 and {"env list", "config show", "hpcpack check", "status"} <= set(found)
    assert sorted(found) == described_verbs()


@pytest.mark.parametrize("verb", SCHEMAS)
def test_each_key_is_described(verb: str) -> None:
    known = set()
    for path, schema in parts(SCHEMAS[verb]):
        for name, each in schema.get("properties", {}).items():
            words = each.get("description") or resolved(each, verb)["description"]
            assert words.endswith(".") and len(words) > 7, (path, name)
            known.add(name)
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path
        assert "additionalProperties" not in schema or "properties" not in schema, "%s is open" % path
    assert known or SCHEMAS[verb]["items"] == {"type": "string"}


@pytest.mark.slow
@pytest.mark.parametrize("verb", SCHEMAS)
def test_each_schema_is_one(verb: str) -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMAS[verb])
    Draft202012Validator.check_schema(closed(SCHEMAS[verb]))


@pytest.mark.parametrize(
    ("kind", "path", "more"),
    [
        (Summary, ("list", "items"), TIMES),
        (Usage, ("status", "properties", "usage", "anyOf", 0), set()),
        (WaitExplanation, ("status", "properties", "waiting", "anyOf", 0), set()),
        (Change, ("status", "properties", "waiting", "anyOf", 0, "properties", "sooner", "items"), set()),
        (RunWarning, ("status", "properties", "warnings", "items"), set()),
        (
            Failure,
            ("status", "properties", "failure", "anyOf", 0),
            {"signal", "host", "exception", "cause", "hint", "last_lines", "others"},
        ),
        (efficiency.Efficiency, ("wait", "properties", "efficiency", "anyOf", 0), {"attempt", "text"}),
        (efficiency.Starting, ("wait", "properties", "efficiency", "anyOf", 0, "properties", "starting"), set()),
        (efficiency.GpuFigures, ("wait", "properties", "efficiency", "anyOf", 0, "properties", "gpus"), set()),
        (efficiency.CpuFigures, ("wait", "properties", "efficiency", "anyOf", 0, "properties", "cpu"), set()),
        (efficiency.MemoryFigures, ("wait", "properties", "efficiency", "anyOf", 0, "properties", "memory"), set()),
        (KeyRow, ("run", "$defs", "key"), set()),
        (OutputFile, ("outputs", "items"), {"run"}),
        (OutputFile, ("fetch", "items"), {"run", "to"}),
        (Point, ("metrics", "$defs", "point"), set()),
        (usage.NodeFigures, ("metrics", "anyOf", 1, "items"), {"run"}),
        (usage.GpuFigures, ("metrics", "anyOf", 1, "items", "properties", "gpus", "items"), set()),
        (usage.RankFigures, ("metrics", "anyOf", 1, "items", "properties", "ranks", "items"), set()),
        (CheckRow, ("check", "$defs", "check_row"), set()),
        (ComputeNode, ("nodes", "items"), set()),
        (Mount, ("hpcpack share",), {"options", "fstab", "script", "mounted"}),
        (Verdict, ("selftest", "properties", "tests", "items"), set()),
        (ClobberedFile, ("env show", "properties", "changed", "items"), set()),
        (Proposal, ("env propose",), {"name", "channels"}),
        (BenchResult, ("bench",), {"sentences", "tables", "published", "directory"}),
        (
            Measurement,
            ("bench", "properties", "measurements", "items"),
            {"low", "high", "speed_up", "efficiency", "cost", "gpu_hours", "node_hours"},
        ),
        (Table, ("bench", "properties", "tables", "items"), set()),
        (Decision, ("config trust", "items"), set()),
        (ExportRow, ("export", "items"), set()),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_objects_have_the_fields_of_their_values(kind: Any, path: tuple[Any, ...], more: set[str]) -> None:
    assert set(part(*path)["properties"]) == fields_of(kind) | more


def test_words_are_those_of_the_code() -> None:
    states = {value for name, value in vars(RunState).items() if name.isupper() and isinstance(value, str)}
    assert set(part("status", "properties", "state")["enum"]) == states
    assert tuple(part("check", "$defs", "verdict")["enum"]) == VERDICTS
    assert set(part("selftest", "properties", "counts", "properties")) == set(OUTCOMES)


def test_a_schema_has_the_parts_that_it_refers_to_and_no_others() -> None:
    for verb, schema in SCHEMAS.items():
        named = {each["$ref"] for _, each in parts(schema) if "$ref" in each}
        assert named == {"#/$defs/" + name for name in schema.get("$defs", {})}, verb


def test_schema_prints_that_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "env", "list"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == SCHEMAS["env list"]
    assert found["$schema"].endswith("2020-12/schema") and found["title"] == "worldsize env list -o json"
    assert main(["schema", "ls"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS["list"]
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "worldsize job"


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["shell"], ", ".join(described_verbs())),
        (["config"], "config show, config trust"),
        (["env", "pack"], "env list"),
    ],
)
def test_a_verb_without_json_is_told_those_that_have_it(
    words: list[str], known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", *words]) == 2
    what, hint = capsys.readouterr().err.splitlines()
    assert what == "worldsize: schema: '%s' prints no JSON" % " ".join(words)
    assert hint.startswith("  → one of: ") and known in hint


def test_verbs_and_their_actions_are_completed() -> None:
    first = complete_words(argparse.Namespace(what=[]))
    assert {"list", "status", "env", "config"} <= set(first) and "shell" not in first and "" not in first
    assert complete_words(argparse.Namespace(what=["config"])) == ["show", "trust"]
    assert complete_words(argparse.Namespace(what=["list"])) == []


@pytest.mark.slow
def test_tests_refuse_keys_that_no_schema_names() -> None:
    row = {"id": "20260101-000000-000abc", "bytes": 12}
    assert problem("rm", [row]) == ""
    assert "'size' was unexpected" in problem("rm", [{**row, "size": 12}])
    assert "'bytes' is a required property" in problem("rm", [{"id": row["id"]}])
    line = '{"rank": 0, "node": 0, "line": "x"}\n'
    check_output(("logs", "-o", "json"), 2 * line)
    with pytest.raises(AssertionError, match=r"logs -o json: .*'text' was unexpected"):
        check_output(("logs", "-o", "json"), line + line.replace("line", "text"))
    with pytest.raises(AssertionError, match="without a schema: shell -o json"):
        check_output(("shell", "-o", "json"), "{}")


def test_command_lines_that_ask_for_json() -> None:
    assert asks_for_json(("list", "-o", "json", "--all")) and asks_for_json(("list", "--output", "json"))
    assert not asks_for_json(("exec", "--", "x", "-o", "json")) and not asks_for_json(("list", "-o", "text"))
    assert find_verb(["env", "list", "-o", "json"]) == "env list"
    assert find_verb(["status", "20260101-000000-000abc"]) == "status"
    assert find_verb(["env", "pack"]) is None


def test_every_kind_of_wait_is_one_of_the_schema() -> None:
    rules = wait_rules
    kinds = (rules.COLLECTIVE, rules.START, rules.MAY, rules.DEVICE, rules.LOADER, rules.CHILD, rules.LOCK, rules.SLEEP)
    waits = SCHEMAS["stacks"]["$defs"]["waits_for"]["anyOf"][0]
    assert set(waits["properties"]["kind"]["enum"]) == {*kinds, rules.IO}
