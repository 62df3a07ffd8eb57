"""`stage:` of a job file, read."""

from __future__ import annotations

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.reading.job_file import parse_job


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("{data: {a: 'http://h:x/'}}", "stage.data.a: is not a readable address"),
        ("{torch_hub: [a]}", "stage: torch_hub: 'a' is neither OWNER/NAME:REF nor a URL"),
        ("{pips: [a]}", "stage.pips: is not a key of stage"),
        ("[a]", "stage: expected a mapping of keys"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(said: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job("command: x\nstage: %s\n" % said, "job.yml")
    assert message in caught.value.what and caught.value.where == "job.yml:2"
