"""Whatever Python says of a job, the answer is a job or an error of ours."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz, objects, only_ours

from worldsize.jobspec.keys.job import JOB
from worldsize.wings.python_surface.command_job import command

ATTRIBUTES = sorted(({*JOB} - {"$schema", "type"}) | {"instance_count", "timeout", "job_tier", "comand"})


@fuzz
@given(st.dictionaries(st.sampled_from(ATTRIBUTES), objects, max_size=6))
def test_any_python_values(values: dict[str, Any]) -> None:
    only_ours(lambda: command(**values).build())
