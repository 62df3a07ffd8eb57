"""Expressions are text for text; the shell's own signs are left alone."""

from __future__ import annotations

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.expressions import input_text, resolve_expressions
from worldsize.jobspec.job import Input, InputValue

INPUTS = {"lr": "0.1", "data": "/my data/x", "words": "--a 1 --b 2", "trick": "${{inputs.lr}} $[[x]]"}
OUTPUTS = {"model": "/run/outputs/model"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python t.py --lr ${{inputs.lr}}", "python t.py --lr 0.1"),
        ("${{ inputs.lr }}${{inputs.lr }}", "0.10.1"),
        ("cp ${{inputs.data}} ${{outputs.model}}", "cp /my data/x /run/outputs/model"),
        ("t ${{inputs.words}}", "t --a 1 --b 2"),
        ("$RANK ${RANK} $$ $(id) $((1+1)) {{x}} $[1]", "$RANK ${RANK} $$ $(id) $((1+1)) {{x}} $[1]"),
        ("$${{inputs.lr}}", "$0.1"),
        ("${{inputs.trick}}", "${{inputs.lr}} $[[x]]"),
        ("a\n${{inputs.lr}}\nb", "a\n0.1\nb"),
        ("t $[[--lr ${{inputs.lr}}]] x", "t --lr 0.1 x"),
        ("t $[[--opt ${{inputs.opt}}]] x", "t  x"),
        ("t $[[--both ${{inputs.lr}} ${{inputs.opt}}]]", "t "),
        ("[[ -e x ]] && t $[[ x ]] ${{inputs.lr}}", "[[ -e x ]] && t $[[ x ]] 0.1"),
        ("nothing", "nothing"),
    ],
)
def test_resolving(command: str, expected: str) -> None:
    assert resolve_expressions(command, INPUTS, OUTPUTS, "job.yml:3", ["opt"]) == expected


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("${{inputs.lrr}}", "did you mean 'lr'?"),
        ("${{outputs.modle}}", "did you mean 'model'?"),
        ("${{inputs.model}}", "${{inputs.model}} names none of the job's inputs"),
        ("${{inputs.opt}}", "put it inside $[[ ]]"),
        ("$[[${{inputs.zzz}}]]", "names none of the job's inputs"),
        ("${{search_space.lr}}", "belongs to a sweep"),
        ("${{parent.inputs.x}}", "write ${{inputs.name}} or ${{outputs.name}}"),
        ("${{}}", "write ${{inputs.name}} or ${{outputs.name}}"),
        ("${{inputs}}", "is not an expression known here"),
        ("${{inputs.lr} x", "has no closing }}"),
    ],
)
def test_what_does_not_resolve_is_named_with_its_place(command: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        resolve_expressions(command, INPUTS, OUTPUTS, "job.yml:3", ["opt"])
    assert message in str(caught.value)
    assert caught.value.where == "job.yml:3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"),
        (False, "False"),
        (8, "8"),
        (0.1, "0.1"),
        (1e-5, "1e-05"),
        (1000.0, "1000.0"),
        ("two words", "two words"),
        (Input(path="/data"), "/data"),
        (Input(optional=True), ""),
    ],
)
def test_literals_are_written_as_the_service_would(value: InputValue, text: str) -> None:
    assert input_text(value) == text
