"""Property lists, times; whose share and whose account it is."""

from __future__ import annotations

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.wings.hpcpack.head.credentials import VARIABLE, obtain_password
from worldsize.wings.hpcpack.head.wire import properties, rows, time_of, to_property_list
from worldsize.wings.hpcpack.settings import (
    HeadAccess,
    Share,
    handle_fields,
    has_account_of,
    head_access,
    job_options,
    share_of,
)


def test_an_object_there_and_back() -> None:
    values = {"Id": "14", "State": "Queued", "Name": "ü"}
    assert properties(to_property_list(values)) == {"id": "14", "state": "Queued", "name": "ü"}
    assert rows([{"Properties": to_property_list(values)}, to_property_list({"ID": "15"})]) == [
        {"id": "14", "state": "Queued", "name": "ü"},
        {"id": "15"},
    ]
    assert properties([{"Name": "A", "Value": None}, {"Name": "B", "Value": 3}]) == {"a": "", "b": "3"}


@pytest.mark.parametrize("value", [None, 3, "x", {}, [3], [{"Value": "x"}], [[{}]]])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        properties(value)
    with pytest.raises(ValueError):
        rows({"a": value})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1/2/1970 12:00:01 AM", 86401),
        ("11/21/2026 5:20:00 PM", 1795281600),
        ("11/21/2026 17:20:00", 1795281600),
        ("2026-11-21T17:20:00.123Z", 1795281600),
        ("2026-11-21T19:20:00.1234567+02:00", 1795281600),
        ("2026-11-21T15:50:00-01:30", 1795281600),
        ("2026-11-21T17:20:00.soon", None),
        ("", None),
        ("soon", None),
    ],
)
def test_times_are_utc(text: str, seconds: float | None) -> None:
    assert time_of(text) == seconds


OPTIONS = {
    "url": "https://head.corp:8443/",
    "user": "CORP\\me",
    "share": {"head": "\\\\head\\CcpSpoolDir\\app", "node": "/app/", "local": "/mnt/app"},
    "ca_file": "/etc/head.pem",
    "node_group": "GPU",
    "job_properties": {"HoldUntil": "x", "OrderBy": "y"},
    "modules": ("gcc",),
}


def test_an_account_and_what_a_handle_keeps_of_it() -> None:
    settings = ComputeSettings("lab", "hpcpack", gpus_per_node=4, python="/opt/python3", options=OPTIONS)
    access, share = head_access(settings), share_of(OPTIONS)
    assert (access.base, access.owner, access.verify) == ("https://head.corp:8443/hpc", "CORP\\me", True)
    assert HeadAccess("https://head/other/", "me", as_user="you").base == "https://head/other"
    handle = {**handle_fields(access, share), "python": settings.python, "gpus": 4, "job": 1}
    assert has_account_of(settings, handle)
    other = {"url": "https://other/"}, {"user": "CORP\\you"}, {"as_user": "CORP\\you"}
    assert not any(has_account_of(settings, {**handle, **change}) for change in other)
    assert not has_account_of(settings, {})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"user": "me"}, "has no `url`"),
        ({"url": "https://head"}, "has no `user`"),
        ({"url": "http://head", "user": "me"}, "sent unencrypted"),
        ({"url": "https://me:word@head", "user": "me"}, "a login in an address"),
    ],
)
def test_a_table_that_does_not_say_enough(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        head_access(ComputeSettings("lab", "hpcpack", options=options))
    assert (caught.value.where or "").startswith("compute.lab.")


def test_the_share_has_three_names() -> None:
    share = share_of(OPTIONS)
    assert share == Share("\\\\head\\CcpSpoolDir\\app", "/app", "/mnt/app")
    assert share is not None and share.unc() == "//head/CcpSpoolDir/app"
    assert share.to_node_path("/mnt/app/runs/x") == "/app/runs/x"
    assert share.path_mapping()[0] == ("/mnt/app", "/app")
    assert Share("/mnt/app", "/app").path_mapping() == () and Share("/mnt/app", "/app").unc() == ""
    assert share_of({}) is None
    assert share_of({"share": {"head": "/srv/app"}}) == Share("/srv/app", "/srv/app", "/srv/app")


def test_a_share_is_found_through_links_too(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    share = Share("", "/app", str(tmp_path / "link"))
    assert (
        share.to_node_path(str(tmp_path / "real" / "x")) == share.to_node_path(str(tmp_path / "link" / "x")) == "/app/x"
    )


def test_a_jobs_words_win_key_by_key() -> None:
    said = job_options(OPTIONS, {"node_group": "CPU", "job_properties": {"OrderBy": "z"}})
    assert said == {"node_group": "CPU", "job_properties": {"HoldUntil": "x", "OrderBy": "z"}}


def test_a_password_comes_from_the_environment_or_a_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring

    kept = {("worldsize:https://head", "me"): "of the ring"}
    monkeypatch.setattr(keyring, "get_password", lambda service, user: kept.get((service, user)))
    assert obtain_password("https://head", "me", {VARIABLE: "of the environment"}) == "of the environment"
    assert obtain_password("https://head", "me", {}) == "of the ring"
    with pytest.raises(ConfigError) as caught:
        obtain_password("https://head", "you", {})
    for way in (VARIABLE, "keyring set worldsize:https://head 'you'", "type it"):
        assert way in str(caught.value)


def test_a_keyring_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.errors import NoKeyringError

    def fails(service: str, user: str) -> str:
        raise NoKeyringError("no backend")

    monkeypatch.setattr(keyring, "get_password", fails)
    with pytest.raises(ConfigError, match="there is no password for me"):
        obtain_password("https://head", "me", {})
