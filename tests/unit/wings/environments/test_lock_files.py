"""What a lock file brings back."""

from __future__ import annotations

from typing import Any

from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep
from worldsize.wings.environments.sources import with_lock_spec


def test_a_lock_brings_back_what_was_said_beside_the_packages() -> None:
    said = EnvironmentSpec(
        name="n", variables={"A": "1", "B_TOKEN": "***"}, modules=("cuda",), fetch=(FetchStep("u", "0" * 64),),
        steps=(BuildStep(pip=("h",), variables={"X": "1"}),),
    )  # fmt: skip
    value: dict[str, Any] = {
        "spec": {
            **said._asdict(),
            "fetch": [each._asdict() for each in said.fetch],
            "steps": [each._asdict() for each in said.steps],
            "modules": ["cuda"],
            "from_a_newer_worldsize": 1,
        }
    }
    found = with_lock_spec(EnvironmentSpec(variables={"C": "2"}), value)
    assert found == said._replace(variables={"A": "1", "C": "2"})
