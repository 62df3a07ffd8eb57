"""What a program that submits is told goes to its log, without passwords."""

from __future__ import annotations

import logging

import pytest

from worldsize.wings.python_surface.client import _LoggedProgress


def test_a_notice_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "worldsize"):
        _LoggedProgress().notice("fetching git+https://anna:Canary@host/x.git with --token Canary")
    assert caplog.messages == ["fetching git+https://anna:***@host/x.git with --token ***"]
