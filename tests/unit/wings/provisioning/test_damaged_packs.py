"""Files that only look like packed environments: refused by name, with little memory, and nobody waits for them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tracemalloc
import zlib
from pathlib import Path

import pytest

import worldsize
from worldsize.environment.existing import ExistingEnvironment
from worldsize.errors import UsageError
from worldsize.plan.node_disk import PackedEnvironment
from worldsize.wings.provisioning.agent.environment import EnvironmentUnpacker
from worldsize.wings.provisioning.agent.pack_format import (
    DESCRIPTION,
    ENVIRONMENT_MARK,
    HEADER,
    PIECE,
    VERSION,
    make_member,
    member_content,
    member_length,
)
from worldsize.wings.provisioning.agent.unpack import DamagedPack
from worldsize.wings.provisioning.pack import pack
from worldsize.wings.provisioning.packed_environments import environment_of_pack

MIB = 1 << 20
DESCRIBED = {"version": VERSION, "kind": "venv", "prefix": "/x", "python": [3, 11]}

LOOK = """
import resource, sys
from worldsize.wings.provisioning.packed_environments import environment_of_pack
from worldsize.errors import UsageError

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
try:
    environment_of_pack(sys.argv[1])
except UsageError as error:
    print(error.what)
"""


def header(size: str) -> bytes:
    """A tar file's, of the description; `size` in octal digits."""
    found = bytearray(512)
    found[: len(DESCRIPTION)] = DESCRIPTION.encode()
    found[124:135] = size.encode()
    found[156:157] = b"0"
    return bytes(found)


def described(description: object) -> bytes:
    """A pack that holds nothing else."""
    data = json.dumps(description).encode()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo(DESCRIPTION)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return make_member(whole.getvalue(), 6)


def zeros(first: bytes, mib: int, said: int) -> bytes:
    """A member that inflates to `first` and so many MiB of zeros, and says that it holds `said` bytes. The same block
    is repeated: nothing as large is ever in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    begin = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    body = begin + block * mib + packer.flush()
    template = make_member(b"", 6)
    length = HEADER + len(body) + 8
    return template[:16] + length.to_bytes(8, "little") + body + bytes(4) + said.to_bytes(4, "little")


def looked_at(path: Path) -> str:
    """What is said of it, with little memory."""
    environ = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(worldsize.__file__))}
    done = subprocess.run([sys.executable, "-c", LOOK, str(path)], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def refused(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "env.tar.gz"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        environment_of_pack(str(path))
    return str(caught.value)


def test_one_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "env.tar.gz"
    path.write_bytes(described(DESCRIBED))
    assert environment_of_pack(str(path)) == ExistingEnvironment(ENVIRONMENT_MARK, "venv", (3, 11))


def test_a_negative_size(tmp_path: Path) -> None:
    """Found by review: it was read for ever."""
    assert "negative" in refused(tmp_path, make_member(header("-0000000777") + bytes(4096), 6))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("%011o" % (3 << 30), MIB),
        ("%011o" % 512, MIB),
        ("%011o" % 512, 1000 * MIB),
        ("%011o" % (3 << 30), 1000 * MIB),
    ],
)
def test_a_member_that_inflates_to_gigabytes(tmp_path: Path, size: str, said: int) -> None:
    """Found by review: three megabytes took three gigabytes of memory to be looked at."""
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(zeros(header(size), 3000, said))
    assert path.stat().st_size < 4 * MIB
    assert "is not a packed environment" in looked_at(path)


@pytest.mark.parametrize("length", [(1 << 30) - 1, 100 * MIB])
def test_a_member_that_is_a_hole(tmp_path: Path, length: int) -> None:
    """Found by review: a file that takes no place on the disk took three gigabytes of memory to be looked at."""
    path = tmp_path / "hole.tar.gz"
    with open(path, "wb") as file:
        file.write(make_member(b"", 6)[:16] + length.to_bytes(8, "little"))
        file.truncate(1 << 30)
    assert "is not a packed environment" in looked_at(path)


@pytest.mark.exhaustive(unless=["[]-5", "{}-4", "0.5-20"])
@pytest.mark.heavy
@pytest.mark.parametrize("mib", [20, 5, 4])
@pytest.mark.parametrize("value", [b"[]", b"{}", b"0.5"])
def test_a_description_of_many_values(tmp_path: Path, mib: int, value: bytes) -> None:
    """Found by review: thirty kilobytes took nine hundred megabytes of memory to be looked at."""
    count = mib * MIB // (len(value) + 1) - 2
    data = b"[" + (value + b",") * count + b"0]"
    whole = header("%011o" % len(data)) + data + bytes(-len(data) % 512)
    path = tmp_path / "env.tar.gz"
    path.write_bytes(b"".join(make_member(whole[at : at + PIECE], 9) for at in range(0, len(whole), PIECE)))
    assert path.stat().st_size < MIB and "its description" in looked_at(path)


def test_the_largest_member_of_ours(tmp_path: Path) -> None:
    """What cannot be compressed becomes longer."""
    whole = make_member(os.urandom(PIECE), 6)
    assert len(whole) > PIECE and member_length(whole[:HEADER]) == len(whole)
    assert member_content(whole, bounded=True) == member_content(whole)


@pytest.mark.parametrize(
    "description",
    [
        *([], [DESCRIBED], "text", 5, None, {"version": VERSION}),
        *({"version": VERSION, "kind": "venv"}, {"version": VERSION, "prefix": "/x"}),
        *({**DESCRIBED, "kind": ["venv"]}, {**DESCRIBED, "prefix": 5}, {**DESCRIBED, "version": 99}),
    ],
)
def test_odd_descriptions(tmp_path: Path, description: object) -> None:
    """Found by review: a traceback."""
    assert "is not a packed environment" in refused(tmp_path, described(description))


@pytest.mark.parametrize("python", ["ab", "3.11", 3, [3], [3, "11"], [3, 11, 7], [[], {}], {"a": 1, "b": 2}, True])
def test_an_odd_python(tmp_path: Path, python: object) -> None:
    """Found by review: a traceback, or two letters in the place of a version. It counts as not known."""
    path = tmp_path / "env.tar.gz"
    path.write_bytes(described({**DESCRIBED, "python": python}))
    assert environment_of_pack(str(path)) == ExistingEnvironment(ENVIRONMENT_MARK, "venv", None)


def test_a_pipe(tmp_path: Path) -> None:
    """Found by review: whoever looked at it waited for a writer."""
    os.mkfifo(tmp_path / "env.tar.gz")
    with pytest.raises(UsageError, match="cannot be read"):
        environment_of_pack(str(tmp_path / "env.tar.gz"))


def test_a_device(tmp_path: Path) -> None:
    """Found by review: the same of what has no end, behind a link."""
    os.symlink("/dev/zero", tmp_path / "env.tar.gz")
    with pytest.raises(UsageError, match="cannot be read"):
        environment_of_pack(str(tmp_path / "env.tar.gz"))


@pytest.mark.parametrize("digest", ["../../evil", "../../evil".ljust(64, "0"), "", "0" * 63])
def test_a_checksum_that_is_a_path(tmp_path: Path, digest: str) -> None:
    """Found by review: what lay where it led was taken for the unpacked environment, and executed."""
    evil = tmp_path / "evil" / "bin"
    evil.mkdir(parents=True)
    unpacking = EnvironmentUnpacker(PackedEnvironment("/gone", digest, 1, "/old"), str(tmp_path), lambda: False)
    with pytest.raises(DamagedPack, match="checksum"):
        unpacking.run()
    unpacking.close()
    assert unpacking.path == ""


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_nobody_else_reads_a_pack(tmp_path: Path, mask: int) -> None:
    """Found by review: what only its owner could read in the environment, everybody could in the pack."""
    prefix = tmp_path / "env"
    prefix.mkdir(0o700)
    (prefix / "secret").touch(0o600)
    before = os.umask(mask)
    try:
        made = pack(ExistingEnvironment(str(prefix), "prefix", (3, 11)), str(tmp_path / "env.tar.gz"))
    finally:
        os.umask(before)
    assert os.stat(made.path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("sign", [b"[", b'{"a":'])
def test_a_deep_description(tmp_path: Path, sign: bytes) -> None:
    """Found by review: a traceback."""
    data = sign * 200_000
    path = tmp_path / "env.tar.gz"
    path.write_bytes(make_member(header("%011o" % len(data)) + data + bytes(-len(data) % 512), 6))
    with pytest.raises(UsageError):
        environment_of_pack(str(path))


@pytest.mark.heavy
def test_a_description_of_a_hundred_megabytes(tmp_path: Path) -> None:
    """Found by review: the limit of a description is 256 MiB, and its parsed value takes several times as much."""
    data = b"[" + b"0," * (50 << 20) + b"0]"
    whole = header("%011o" % len(data)) + data + bytes(-len(data) % 512)
    path = tmp_path / "env.tar.gz"
    path.write_bytes(b"".join(make_member(whole[at : at + (4 << 20)], 9) for at in range(0, len(whole), 4 << 20)))
    del data, whole
    tracemalloc.start()
    try:
        with pytest.raises(UsageError):
            environment_of_pack(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 128 << 20, peak
