"""What uploads say and do before any request is sent."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import ConfigError, SubmitAgain
from worldsize.wings.azure.storage.blob_errors import blob_error, hide_signatures
from worldsize.wings.azure.storage.blobs import Container
from worldsize.wings.azure.storage.data_asset import upload_input

SIGNED = "sv=2023&sp=r&sig=abc%2Bdef"


@pytest.mark.parametrize(
    "uri", ["azureml:digits:1", "azureml://datastores/a/paths/b", "https://h/a", "abfss://c@h/a", "wasbs://c@h/a"]
)
def test_uris_stay_as_they_are(uri: str) -> None:
    client: Any = None
    assert upload_input(client, uri) == uri


def test_without_azures_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "azure.storage.blob", None)
    with pytest.raises(ConfigError) as missing:
        Container("https://a.blob.core.windows.net/c", SIGNED).find("")
    assert missing.value.hint == "pip install 'worldsize[azure]'"


def test_a_container_is_shown_without_its_signature() -> None:
    assert repr(Container("https://h/c", SIGNED)) == "Container('https://h/c')"


def test_an_error_tells_nothing_of_the_clients_own_words() -> None:
    errors = pytest.importorskip("azure.core.exceptions")
    answer: Any = type("Answer", (), {"status_code": 503, "reason": SIGNED, "text": lambda self: SIGNED})()
    for error in (errors.HttpResponseError(SIGNED, answer), errors.AzureError(SIGNED)):
        found = blob_error(error, "https://h/c")
        assert isinstance(found, SubmitAgain)
        assert "sig" not in str(found)


def test_signatures_are_taken_out_of_the_lines_of_urllib3(caplog: pytest.LogCaptureFixture) -> None:
    hide_signatures()
    caplog.set_level(logging.DEBUG)
    logging.getLogger("urllib3.connectionpool").debug('"%s %s"', "GET", "/c/b?" + SIGNED)
    assert '"GET /c/b?sv=2023&sp=r&sig=***"' in caplog.text
