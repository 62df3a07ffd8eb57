"""What a build keeps out of its words, of secrets with several lines."""

from __future__ import annotations

from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.wings.environments.pipeline import secrets_of_build


def test_each_line_of_a_secret_that_has_several() -> None:
    """Found by review: a program's words are masked line by line, so that a key was in the log."""
    key = "-----BEGIN KEY-----\nAAAABBBBCCCC\n  DDDDEEEE\nend\n"
    found = secrets_of_build(EnvironmentSpec(variables={"DEPLOY_KEY": key}), {}, ["DEPLOY_KEY"])
    assert found == [key, "-----BEGIN KEY-----", "AAAABBBBCCCC", "DDDDEEEE"]
