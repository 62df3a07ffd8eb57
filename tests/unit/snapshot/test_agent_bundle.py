"""agent.pyz: whole, the same bytes for the same sources, and cheap to ask for again."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile

import pytest

from worldsize.compute.slurm.script import pack
from worldsize.snapshot import agent_bundle as bundle
from worldsize.snapshot.agent_bundle import ensure_agent_bundle, ensure_bytecode
from worldsize.version import VERSION

pytestmark = pytest.mark.heavy

SOURCE = os.path.join(os.path.dirname(bundle.__file__), "..")


@pytest.fixture
def other_sources(tmp_path, monkeypatch):
    """A copy of the package's sources, of which bundles are made from now on."""
    copy = str(tmp_path / "worldsize")
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(bundle, "_ROOT", copy)
    monkeypatch.setattr(bundle, "_identities", {})
    return copy


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The bundle of the sources as they are: to make one takes half a second."""
    return ensure_agent_bundle(str(tmp_path_factory.mktemp("made")))


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_made_once_and_private(tmp_path):
    cache = str(tmp_path / "a" / "cache")
    first = ensure_agent_bundle(cache)
    before = os.stat(first)
    assert ensure_agent_bundle(cache) == first
    assert os.stat(first) == before
    assert stat.S_IMODE(before.st_mode) == 0o600
    assert os.listdir(cache) == [os.path.basename(first)]


def test_the_same_sources_give_the_same_bytes(made, tmp_path, other_sources):
    """Wherever they lie, and whenever they were written."""
    for folder, _, names in os.walk(other_sources):
        for name in names:
            os.utime(os.path.join(folder, name), (1_000_000, 1_000_000))
    touched = ensure_agent_bundle(str(tmp_path / "two"))
    assert os.path.basename(made) != os.path.basename(touched)
    assert read(made) == read(touched)


def test_other_sources_give_another_bundle(made, tmp_path, other_sources):
    cache = str(tmp_path / "cache")
    os.mkdir(cache, 0o700)
    first = shutil.copy(made, cache)
    with open(os.path.join(other_sources, "agent", "outcome", "verdict.py"), "a") as file:
        file.write("\nMORE = 1\n")
    second = ensure_agent_bundle(cache)
    assert second != first and read(second) != read(first)
    assert b"MORE = 1" in zipfile.ZipFile(second).read("worldsize/agent/outcome/verdict.py")


def test_an_installed_worldsize_is_known_by_its_list_of_checksums(tmp_path, other_sources):
    """Its sources, hundreds of files, need not be looked at for each run."""
    record = tmp_path / ("worldsize-%s.dist-info" % VERSION) / "RECORD"
    record.parent.mkdir()
    record.write_text("worldsize/errors.py,sha256=one,1\n")
    first = ensure_agent_bundle(str(tmp_path / "cache"))
    os.utime(os.path.join(other_sources, "errors.py"), (1_000_000, 1_000_000))
    assert ensure_agent_bundle(str(tmp_path / "cache")) == first
    record.write_text("worldsize/errors.py,sha256=two,1\n")
    bundle._identities.clear()  # as another process
    assert ensure_agent_bundle(str(tmp_path / "cache")) != first


def test_what_python_has_left_of_a_wing_is_none(made, tmp_path, other_sources):
    """Git and package managers remove sources, and leave the folders of their bytecode."""
    os.makedirs(os.path.join(other_sources, "wings", "former", "agent", "__pycache__"))
    assert read(ensure_agent_bundle(str(tmp_path / "two"))) == read(made)


def test_holds_the_nodes_side_and_nothing_else(made):
    names = set(zipfile.ZipFile(made).namelist())
    assert {"__main__.py", "worldsize/__init__.py", "worldsize/errors.py", "worldsize/registry.py"} <= names
    packages = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert packages - {"wings"} == {"agent", "common", "plan", "state", "trust"}
    in_wings = {name.split("/")[3] for name in names if name.startswith("worldsize/wings/") and name.count("/") > 2}
    assert in_wings <= {"agent", "judgement", "__init__.py", "__init__.pyc"}
    sources = {name for name in names if name.endswith(".py")}
    compiled = {name + "c" for name in sources if name not in ("__main__.py", "worldsize/__init__.py")}
    assert names - sources == compiled


def test_this_python_need_not_compile_it(made):
    program = "import sys; sys.path.insert(0, sys.argv[1]); from worldsize.agent.supervision import supervisor"
    program += "; print(supervisor.__file__)"
    assert subprocess.check_output([sys.executable, "-I", "-S", "-c", program, made], text=True).endswith(".pyc\n")


def test_a_small_one_holds_the_same_sources_and_runs(made, tmp_path):
    """What travels in a batch script: every byte of it goes to slurmctld, for every run."""
    whole, small = shutil.copy(made, tmp_path), ensure_agent_bundle(str(tmp_path), small=True)
    assert small != whole and len(pack(read(small))) < os.path.getsize(whole) / 8
    first, second = zipfile.ZipFile(whole), zipfile.ZipFile(small)
    assert second.namelist() == [name for name in first.namelist() if name.endswith(".py")]
    assert all(second.read(name) == first.read(name) for name in second.namelist())
    done = subprocess.run([sys.executable, "-I", "-S", small], capture_output=True, text=True)
    assert done.returncode == 2 and "RUN_DIR" in done.stderr


def test_bytecode_of_one_module_is_taken_for_it(tmp_path):
    """Though the source beside it is younger; and the same bytes are not made twice."""
    source = tmp_path / "one.py"
    source.write_text("print('made of the source')\n")
    made = ensure_bytecode(str(source), str(tmp_path / "cache"))
    assert ensure_bytecode(str(source), str(tmp_path / "cache")) == made
    (tmp_path / "__pycache__").mkdir()
    shutil.copy(made, tmp_path / "__pycache__" / ("one.%s.pyc" % sys.implementation.cache_tag))
    os.utime(source, (2_000_000_000, 2_000_000_000))
    done = subprocess.run([sys.executable, "-v", "-c", "import one"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "made of the source\n" and "one.%s.pyc matches" % sys.implementation.cache_tag in done.stderr
    source.write_text("print('and of another')\n")
    assert ensure_bytecode(str(source), str(tmp_path / "cache")) != made


def test_asking_again_imports_no_zipfile(made):
    program = (
        "import sys\n"
        "from worldsize.snapshot.agent_bundle import ensure_agent_bundle\n"
        "ensure_agent_bundle(sys.argv[1])\n"
        "sys.exit('zipfile' in sys.modules)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "..")}
    assert subprocess.call([sys.executable, "-c", program, os.path.dirname(made)], env=environ) == 0


def test_an_interrupted_writer_leaves_no_half_bundle(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError):
        ensure_agent_bundle(str(tmp_path))
    assert os.listdir(tmp_path) == []
