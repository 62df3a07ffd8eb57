"""Packed environments: the same bytes for the same content, working elsewhere, and nothing damaged counts."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_environments import a_prefix, packed
from selection import cases

from worldsize.environment.existing import inspect_prefix
from worldsize.errors import StorageError
from worldsize.service.request import EnvironmentPack
from worldsize.wings.provisioning.agent.pack_format import (
    DESCRIPTION,
    HEADER,
    PIECE,
    VERSION,
    make_member,
    member_content,
    member_length,
)
from worldsize.wings.provisioning.agent.relocate import BINARY, TEXT, prefix_file_kind, with_new_prefix
from worldsize.wings.provisioning.agent.unpack import DamagedPack, description_of, unpack_environment
from worldsize.wings.provisioning.pack import pack

OLD = "/old/place/env"


def unpacked(found: EnvironmentPack, tmp_path: Path, name: str = "node") -> Path:
    place = tmp_path / name
    with open(found.path, "rb") as file:
        unpack_environment(file.read, found.digest, str(place) + ".part", str(place))
    os.rename(str(place) + ".part", place)
    return place


@pytest.mark.heavy
def test_a_disk_with_no_room_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: what tarfile does as it is collected has nowhere to go any more."""
    unheard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    prefix = a_prefix(tmp_path)
    for number in range(9):
        (prefix / ("more%d" % number)).write_bytes(os.urandom(PIECE))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * PIECE, before[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            packed(prefix, tmp_path / "env.tar.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    gc.collect()
    assert unheard == []
    assert [each.name for each in tmp_path.iterdir()] == ["env"]


def test_nothing_is_overwritten_through_a_link(tmp_path: Path) -> None:
    """Found by review: where others may write, a link with the name of the unfinished pack led to any file."""
    prefix = a_prefix(tmp_path)
    (tmp_path / "precious").write_text("precious")
    os.symlink("precious", tmp_path / "env.tar.gz.part")
    packed(prefix, tmp_path / "env.tar.gz")
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.heavy
def test_it_is_the_same_elsewhere(tmp_path: Path) -> None:
    prefix = a_prefix(tmp_path)
    found = packed(prefix, tmp_path / "env.tar.gz")
    place = unpacked(found, tmp_path)
    assert (place / "bin/tool").read_text() == "#!%s/bin/python\nprint('%s')\n" % (place, place)
    assert (place / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert os.readlink(place / "lib64") == "lib" and os.readlink(place / "away") == "/etc/hostname"
    assert (place / "lib/large").read_bytes() == (prefix / "lib/large").read_bytes()
    assert (place / "lib/same").samefile(place / "lib/large")
    assert (place / ("lib/" + "long" * 40)).exists() and (place / "empty").is_dir()
    binary = (place / "bin/python").read_bytes()
    assert str(place).encode() not in binary if len(str(place)) > len(str(prefix)) else b"/node/lib\0" in binary
    assert found.size == os.path.getsize(found.path) and found.unpacked > 9 << 20


@pytest.mark.heavy
def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    prefix = a_prefix(tmp_path)
    assert packed(prefix, tmp_path / "a").digest == packed(prefix, tmp_path / "b").digest
    digest = hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()
    assert packed(prefix, tmp_path / "c").digest == digest


@pytest.mark.heavy
def test_any_tar_can_unpack_it(tmp_path: Path) -> None:
    prefix = a_prefix(tmp_path)
    found = packed(prefix, tmp_path / "env.tar.gz")
    with tarfile.open(found.path) as archive:
        names = archive.getnames()
        large = archive.extractfile("lib/large")
        assert large is not None and large.read() == (prefix / "lib/large").read_bytes()
    assert names[0] == "worldsize-pack.json" and "bin/tool" in names
    (tmp_path / "by-tar").mkdir()
    subprocess.run(["tar", "xzf", found.path, "-C", tmp_path / "by-tar"], check=True)
    assert (tmp_path / "by-tar/lib/python3.11/site-packages/pkg/__init__.py").read_text() == "VALUE = 5\n"


def test_what_it_says_of_itself_is_read_from_its_beginning(tmp_path: Path) -> None:
    found = packed(a_prefix(tmp_path), tmp_path / "env.tar.gz")
    with open(found.path, "rb") as file:
        said = description_of(file.read)
        assert file.tell() < PIECE * 1.1
    assert (said["kind"], said["python"], said["prefix"]) == ("prefix", [3, 11], str(tmp_path / "env"))
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with pytest.raises(ValueError), open(other, "rb") as file:
        description_of(file.read)


@pytest.mark.heavy
@pytest.mark.parametrize("damage", ["cut", "flip", "other", "empty", "tail"])
def test_nothing_damaged_counts(tmp_path: Path, damage: str) -> None:
    found = packed(a_prefix(tmp_path), tmp_path / "env.tar.gz")
    data = bytearray(Path(found.path).read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "other":
        data[:10] = b"not a gzip"
    elif damage == "empty":
        data.clear()
    else:
        data += make_member(b"\0" * 512, 1)
    stream = io.BytesIO(bytes(data))
    with pytest.raises(DamagedPack):
        unpack_environment(stream.read, found.digest, str(tmp_path / "node.part"), str(tmp_path / "node"))


def a_tar_of_another(*members: tuple[str, bytes, str | bytes]) -> bytes:
    """As `env pack` would not write it: name, kind, and what a link leads to or a file holds."""
    buffer = io.BytesIO()
    description = json.dumps(
        {"version": VERSION, "prefix": OLD, "kind": "prefix", "python": [3, 11], "holders": {}}
    ).encode()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, what in ((DESCRIPTION, tarfile.REGTYPE, description), *members):
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6755
            if isinstance(what, str):
                info.linkname = what
            else:
                info.size = len(what)
            archive.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return make_member(buffer.getvalue(), 1)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE])
@pytest.mark.parametrize(
    ("link", "later"),
    [
        *[("away", later) for later in ("away/authorized_keys", "away/deep/x", "lib/away/x", "away")],
        *[("away", later) for later in ("away//x", "./away/x", "lib//away/x", "lib/./away/x", "away/.", "//away/x")],
        *[(link, "away/x") for link in ("./away", "away/", "away/.", "lib/../away", ".//away")],
        *[(link, "lib/away/x") for link in ("lib//away", "lib/./away")],
    ],
)
def test_nothing_is_written_through_a_link_of_it(tmp_path: Path, link: str, later: str, kind: bytes) -> None:
    """Found by review: files were made outside, although the archive was then found to be another; and names that lead
    to the same were compared as they read."""
    outside = tmp_path / "home"
    (outside / "deep").mkdir(parents=True)
    links = [] if link.startswith("lib") else [("lib/away", tarfile.SYMTYPE, str(outside))]
    links.append((link, tarfile.SYMTYPE, str(outside)))
    last = (later, kind, b"key" if kind == tarfile.REGTYPE else "lib/file")
    whole = a_tar_of_another(("lib", tarfile.DIRTYPE, ""), ("lib/file", tarfile.REGTYPE, b""), *links, last)
    digest = hashlib.sha256(whole).hexdigest()
    with pytest.raises(DamagedPack, match=r"below a link|leads outside it|is not a plain name"):
        unpack_environment(io.BytesIO(whole).read, digest, str(tmp_path / "node.part"), str(tmp_path / "node"))
    assert [path.name for path in outside.rglob("*")] == ["deep"]


@pytest.mark.parametrize("link", ["lib/link", "./lib/link", "lib//link", "lib/away/secret", "../home/secret"])
def test_no_second_name_is_made_of_a_link_of_it(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "home"
    outside.mkdir()
    (outside / "secret").write_text("")
    whole = a_tar_of_another(
        ("lib", tarfile.DIRTYPE, ""),
        ("lib/link", tarfile.SYMTYPE, "../../home/secret"),
        ("lib/away", tarfile.SYMTYPE, str(outside)),
        ("name", tarfile.LNKTYPE, link),
    )
    with pytest.raises(DamagedPack, match=r"below a link|leads outside it|is not a plain name"):
        unpack_environment(io.BytesIO(whole).read, "0" * 64, str(tmp_path / "node.part"), str(tmp_path / "node"))
    assert not os.path.lexists(tmp_path / "node.part" / "name") and (outside / "secret").stat().st_nlink == 1


def test_a_link_that_comes_after_a_file_is_not_in_its_way(tmp_path: Path) -> None:
    """Files are written by threads: a link in place of a directory that never was could come first."""
    outside = tmp_path / "home"
    outside.mkdir()
    whole = a_tar_of_another(
        *(("many%d" % number, tarfile.REGTYPE, b"") for number in range(100)),
        ("away/key", tarfile.REGTYPE, b"key"),
        ("away", tarfile.SYMTYPE, str(outside)),
    )
    with pytest.raises(DamagedPack, match="none of its directories contains"):
        unpack_environment(io.BytesIO(whole).read, "0" * 64, str(tmp_path / "node.part"), str(tmp_path / "node"))
    assert list(outside.iterdir()) == []


def test_no_set_uid_bit_is_kept(tmp_path: Path) -> None:
    whole = a_tar_of_another(("lib", tarfile.DIRTYPE, ""), ("lib/file", tarfile.REGTYPE, b"x"))
    unpack_environment(
        io.BytesIO(whole).read, hashlib.sha256(whole).hexdigest(), str(tmp_path / "node.part"), str(tmp_path)
    )
    assert {path.stat().st_mode & 0o7000 for path in (tmp_path / "node.part").rglob("*")} == {0}


@settings(max_examples=cases(30))
@given(st.binary(max_size=200_000), st.integers(1, 9))
def test_members_hold_what_they_were_given(data: bytes, level: int) -> None:
    whole = make_member(data, level)
    assert member_length(whole[:HEADER]) == len(whole) and member_content(whole) == data
    import gzip

    assert gzip.decompress(whole) == data


# moving


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"#!/old/place/env/bin/python\n", TEXT),
        (b"x=/old/place/env", TEXT),
        (b"\0/old/place/env/lib\0", BINARY),
        (b"/old/place/env2/bin", None),
        (b"/old/place/env-other", None),
        (b"/other", None),
    ],
)
def test_which_files_hold_it(data: bytes, kind: str | None) -> None:
    assert prefix_file_kind(data, OLD.encode()) == kind


def test_text_takes_any_length() -> None:
    text = b"a=/old/place/env/lib:/old/place/env2:/old/place/env\n"
    assert with_new_prefix(text, TEXT, 0, OLD.encode(), b"/n") == b"a=/n/lib:/old/place/env2:/n\n"


def test_a_long_interpreter_is_started_through_the_shell(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    (deep / "bin").mkdir(parents=True)
    os.symlink(sys.executable, deep / "bin/python")
    script = b"#!/old/place/env/bin/python -s\nimport sys\nprint(sys.argv[1:], sys.flags.no_user_site)\n"
    data = with_new_prefix(script, TEXT, 0, OLD.encode(), str(deep).encode())
    assert data is not None and data.startswith(b"#!/bin/sh\n")
    (tmp_path / "tool").write_bytes(data)
    (tmp_path / "tool").chmod(0o755)
    done = subprocess.run([tmp_path / "tool", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == "['a b'] 1\n"


def test_in_binary_files_everything_stays_where_it_is() -> None:
    data = b"head\0/old/place/env/lib:/old/place/env/x\0tail\0/old/place/env\0end"
    after = with_new_prefix(data, BINARY, 0, OLD.encode(), b"/n")
    assert after is not None and len(after) == len(data)
    assert after.index(b"tail") == data.index(b"tail") and after.index(b"end") == data.index(b"end")
    assert b"\0/n/lib:/n/x\0" in after and b"\0/n\0" in after
    assert with_new_prefix(data, BINARY, 0, OLD.encode(), b"/new/place/of/env") is None


@settings(max_examples=cases(100))
@given(st.integers(0, 40), st.integers(1, 3), st.integers(0, 30))
def test_room_of_condas_is_used_and_no_more(longer: int, times: int, room: int) -> None:
    """conda pads each string to the length that it had with the long name that packages are built in."""
    new = b"/" + b"n" * (len(OLD) - 1 + longer)
    string = b":".join([OLD.encode() + b"/lib"] * times)
    data = b"head\0" + string + b"\0" + b"\0" * (room * times) + b"tail"
    after = with_new_prefix(data, BINARY, room, OLD.encode(), new)
    if longer > room:
        assert after is None
    else:
        assert after is not None and len(after) == len(data) and after.endswith(b"tail")
        assert after.split(b"\0")[1] == string.replace(OLD.encode(), new)


# real ones


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("venv") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    site = next((prefix / "lib").glob("python*/site-packages"))
    (site / "tiny.py").write_text("NAME = 'tiny'\n")
    (prefix / "bin/tiny").write_text("#!%s/bin/python\nimport tiny, sys; print(tiny.NAME, sys.prefix)\n" % prefix)
    (prefix / "bin/tiny").chmod(0o755)
    return prefix


@pytest.mark.slow
def test_a_virtual_environment_runs_elsewhere(venv: Path, tmp_path: Path) -> None:
    existing = inspect_prefix(str(venv))
    assert existing is not None and existing.kind == "venv"
    found = pack(existing, str(tmp_path / "env.tar.gz"))
    place = unpacked(found, tmp_path)
    os.rename(venv, str(venv) + "-gone")
    try:
        lines = subprocess.run([place / "bin/tiny"], capture_output=True, text=True, check=True).stdout.split()
        asked = "import sys, ssl, json, ctypes; print(sys.prefix, sys.base_prefix)"
        prefixes = subprocess.run([place / "bin/python", "-c", asked], capture_output=True, text=True, check=True)
    finally:
        os.rename(str(venv) + "-gone", venv)
    assert lines == ["tiny", str(place)]
    travels = (place / ".base").is_dir()
    assert travels != bool(found.notices), "a Python that does not travel must be told of"
    prefix, base = prefixes.stdout.split()
    assert prefix == str(place) and base == (str(place / ".base") if travels else sys.base_prefix)


def test_what_is_installed_from_elsewhere_is_told(tmp_path: Path) -> None:
    prefix = a_prefix(tmp_path)
    info = prefix / "lib/python3.11/site-packages/mine-1.0.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text('{"url": "file:///home/me/mine", "dir_info": {"editable": true}}')
    (notice,) = packed(prefix, tmp_path / "env.tar.gz").notices
    assert notice.startswith("mine is installed from /home/me/mine, which is not packed")
