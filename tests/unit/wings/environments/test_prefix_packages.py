"""What is in a prefix and what changed in it; the words for conda and pip; lists split; all without their tools."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import BuildError, ConfigError
from worldsize.trust.secrets import mask_channel
from worldsize.wings.environments.conda.packages import (
    PROGRAM,
    PackageSource,
    channel_addresses,
    packages_from_pip,
    with_masked_addresses,
    with_python,
)
from worldsize.wings.environments.conda.packages import install as packages_install
from worldsize.wings.environments.conda.split_requirements import (
    environment_yaml,
    parse_requirement,
    propose,
    read_list,
)
from worldsize.wings.environments.inspect.installed import (
    ClobberedFile,
    InstalledDistribution,
    find_clobbered,
    installed_distributions,
    named_distributions,
    normalized_name,
    package_set_digest,
    read_file_stamps,
    refuse_clobbered,
)
from worldsize.wings.environments.pip import install
from worldsize.wings.environments.pip.uv import find_uv
from worldsize.wings.environments.sources import lock_text
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import environ_after, run, run_bash, without_active_environment

SITE = "lib/python3.11/site-packages"


class Prefix:
    """A prefix as conda and pip leave one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / SITE).mkdir(parents=True)
        (root / "conda-meta").mkdir()

    def conda(self, name: str, files: dict[str, str], links: dict[str, str] | None = None) -> None:
        paths = []
        for path, content in files.items():
            self.write(path, content)
            digest = hashlib.sha256(content.encode()).hexdigest()
            paths.append({"_path": path, "path_type": "hardlink", "sha256_in_prefix": digest})
        for path, target in (links or {}).items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).symlink_to(target)
            paths.append({"_path": path, "path_type": "softlink"})
        meta = {
            "name": name,
            "version": "1.0",
            "files": [each["_path"] for each in paths],
            "paths_data": {"paths": paths},
        }
        (self.root / "conda-meta" / ("%s-1.0-0.json" % name)).write_text(json.dumps(meta))

    def pip(self, name: str, files: dict[str, str], installer: str = "uv") -> None:
        info = "%s/%s-2.0.dist-info" % (SITE, name)
        for path, content in files.items():
            self.write(path, content)
        rows = "".join("%s,sha256=%s,1\n" % (os.path.relpath(path, SITE), hash(text)) for path, text in files.items())
        self.write(info + "/METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 2.0\n\nName: no\n" % name)
        self.write(info + "/RECORD", rows + "%s-2.0.dist-info/RECORD,,\n" % name)
        self.write(info + "/INSTALLER", installer)

    def write(self, path: str, content: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            target.unlink()
        target.write_text(content)


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    made = Prefix(tmp_path / "env")
    made.conda("cv", {SITE + "/cv2/__init__.py": "conda", "bin/cv": "#!x"}, {"lib/libcv.so": "libcv.so.1"})
    return made


def test_a_file_of_condas_that_pip_changed_is_found_with_both_names(prefix: Prefix) -> None:
    root = str(prefix.root)
    before, were = read_file_stamps(root), installed_distributions(root)
    prefix.pip("opencv", {SITE + "/cv2/__init__.py": "pip", SITE + "/cv2/own.py": "own"})
    found = find_clobbered(root, before, [each for each in installed_distributions(root) if each not in were])
    assert found == [ClobberedFile(SITE + "/cv2/__init__.py", "cv", "changed", "opencv 2.0")]
    with pytest.raises(BuildError, match=r"cv2/__init__.py of cv was changed by opencv 2.0"):
        refuse_clobbered(found, "fail")
    refuse_clobbered(found, "warn")


def test_what_looks_the_same_is_read_only_when_asked(prefix: Prefix) -> None:
    """Size, time and inode as they were: as after a write that somebody took care to hide."""
    root, path = str(prefix.root), prefix.root / SITE / "cv2" / "__init__.py"
    before, status = read_file_stamps(root), path.stat()
    with open(path, "r+") as file:
        file.write("CONDA")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find_clobbered(root, before, []) == []
    assert find_clobbered(root, None, []) == [ClobberedFile(SITE + "/cv2/__init__.py", "cv", "changed", None)]


def test_removed_files_and_links_that_became_files(prefix: Prefix) -> None:
    root = str(prefix.root)
    before = read_file_stamps(root)
    (prefix.root / "bin" / "cv").unlink()
    (prefix.root / "lib" / "libcv.so").unlink()
    found = find_clobbered(root, before, [])
    assert [(each.file, each.what, each.by) for each in found] == [
        ("bin/cv", "removed", None),
        ("lib/libcv.so", "removed", None),
    ]
    assert "by a build step" in found[0].text()


def test_the_same_content_written_anew_is_no_change(prefix: Prefix) -> None:
    before = read_file_stamps(str(prefix.root))
    prefix.write("bin/cv", "#!x")
    assert find_clobbered(str(prefix.root), before, []) == []


def test_many_changes_are_summed_up(prefix: Prefix) -> None:
    found = [ClobberedFile("f%d" % number, "p", "changed", None) for number in range(15)]
    with pytest.raises(BuildError, match="and 5 more"):
        refuse_clobbered(found, "fail")


def test_who_installed_what(prefix: Prefix) -> None:
    prefix.pip("mine", {SITE + "/mine.py": "x"})
    (found,) = installed_distributions(str(prefix.root))
    assert (found.name, found.version) == ("mine", "2.0")
    assert packages_from_pip(str(prefix.root)) == ["mine"]
    info = "%s/theirs-2.0.dist-info/METADATA" % SITE
    prefix.conda("theirs", {info: "Metadata-Version: 2.1\nName: theirs\nVersion: 2.0\n"})
    assert packages_from_pip(str(prefix.root)) == ["mine"]
    assert installed_distributions("/nowhere") == []


@pytest.mark.parametrize("before", ["", "Summary: x\n" * 400, "x" * 2030 + "\n", "x" * 2037 + "\n", "x" * 2044 + "\n"])
def test_distributions_by_name_alone(prefix: Prefix, before: str) -> None:
    """However far behind the headers begin, and though a part that is read may end within them."""
    prefix.pip("mine", {SITE + "/mine.py": "x"})
    metadata = prefix.root / SITE / "mine-2.0.dist-info" / "METADATA"
    metadata.write_text(before + metadata.read_text())
    (prefix.root / SITE / "mine-2.0.dist-info" / "RECORD").unlink()
    (found,) = named_distributions(str(prefix.root))
    assert (found.name, found.version, found.digest) == ("mine", "2.0", None)


def test_a_distributions_digest_is_of_its_files_and_not_of_its_installing(prefix: Prefix) -> None:
    prefix.pip("mine", {SITE + "/mine.py": "x"})
    first = installed_distributions(str(prefix.root))[0].digest
    record = prefix.root / SITE / "mine-2.0.dist-info" / "RECORD"
    text = record.read_text()
    record.write_text(text + "../../../bin/mine,sha256=prefix,3\nmine-2.0.dist-info/INSTALLER,sha256=pip,4\n")
    assert installed_distributions(str(prefix.root))[0].digest == first
    record.write_text(text.replace("mine.py,", "other.py,"))
    assert installed_distributions(str(prefix.root))[0].digest != first


def test_a_package_sets_digest() -> None:
    conda = [{"name": "a", "version": "1", "build": "0", "sha256": "x", "url": "u"}]
    rows: list[dict[str, Any]] = [
        {"name": "My_Pkg", "version": "1", "digest": "d"},
        {"name": "b", "version": "2", "digest": None},
    ]
    first = package_set_digest(conda, rows)
    assert first == package_set_digest([{**conda[0], "url": "elsewhere"}], [rows[1], {**rows[0], "name": "my-pkg"}])
    assert first != package_set_digest([{**conda[0], "sha256": "y"}], rows)
    assert first != package_set_digest(conda, rows[:1])
    assert normalized_name("My._Pkg") == "my-pkg"


def test_a_lock_file_holds_nothing_of_one_machine() -> None:
    text = lock_text(
        {"format": "f", "prefix": "/p", "base": "/b", "host": "h", "created": 1.0, "conda": [], "name": "é"}
    )
    assert json.loads(text) == {"format": "f", "conda": [], "name": "é"}
    assert text.startswith('{\n "format"')


# conda's words


def test_python_is_always_part_of_it() -> None:
    assert with_python(["numpy"], None) == ["python", "numpy"]
    assert with_python(["numpy"], "3.11") == ["python 3.11.*", "numpy"]
    assert with_python(["numpy"], ">=3.10, <3.12") == ["python >=3.10,<3.12", "numpy"]
    assert with_python(["conda-forge::python =3.9", "numpy"], "3.11") == ["conda-forge::python =3.9", "numpy"]
    assert with_python(["python-dateutil"], None)[0] == "python"


def test_channels_as_addresses() -> None:
    assert channel_addresses(["conda-forge", "/mirror/x", "defaults", "nodefaults", "conda-forge"]) == [
        "conda-forge",
        "file:///mirror/x",
        "https://repo.anaconda.com/pkgs/main",
        "https://repo.anaconda.com/pkgs/r",
    ]


def test_passwords_and_tokens_are_hidden() -> None:
    assert mask_channel("https://u:secret@h/c/noarch/a.conda") == "https://u:***@h/c/noarch/a.conda"
    assert mask_channel("https://h/t/an-12345/c/x") == "https://h/t/***/c/x"
    assert mask_channel("t/an-12345/c") == "t/***/c" and mask_channel("conda-forge") == "conda-forge"
    for odd in ("h:80//t//%s/c", "h/%%74/%s?x", "h/T/%s", "h/a%%2Ft%%2f%s/c", "t/a/t/%s"):
        assert mask_channel("see https://%s!" % (odd % "an-12345/")) == "see https://%s!" % (odd % "***/")
    assert mask_channel("https://t/c/x") == "https://t/c/x"
    row = {"name": "a", "url": "https://u:s@h/a", "channel": "https://h/t/tok/c"}
    assert with_masked_addresses([row]) == [{"name": "a", "url": "https://u:***@h/a", "channel": "https://h/t/***/c"}]


def test_an_order_names_what_the_nodes_have() -> None:
    order = PackageSource(("c",), "file:///m", ("__cuda=12.4",), "/cache").order("solve", specs=["a"])
    assert ("__cuda", "12.4", "0") in order["virtual"] and order["alias"] == "file:///m/"
    assert PackageSource(("c",), None, (), "/cache").order("solve")["virtual"] is None


# pip's words


def test_where_packages_are_is_taken_from_included_files_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-i https://u:p@h/simple\nx\n-r b.txt\n")
    (tmp_path / "b.txt").write_text("--find-links ./wheels\n--no-index\ny\n")
    found = install.index_options(["-r %s/a.txt" % tmp_path, "z", "--pre"])
    assert found == ["-i https://u:p@h/simple", "--find-links %s/wheels" % tmp_path, "--no-index", "--pre"]


def test_a_lock_that_came_out_otherwise_is_an_error() -> None:
    lock = {"pip": [{"name": "A_b", "version": "1", "digest": "old"}, {"name": "made", "version": "1", "built": True}]}
    there = InstalledDistribution("a-b", "1", "/x", "new")
    assert install.with_installed_digests(lock, [there]) == [{"name": "A_b", "version": "1", "digest": "new"}]
    for wrong in ([there._replace(version="2")], [], [there, there._replace(name="c")]):
        with pytest.raises(BuildError, match="different from the lock"):
            install.with_installed_digests(lock, wrong)


# programs


@pytest.fixture
def scratch(tmp_path: Path) -> Build:
    return Build(str(tmp_path), lambda what: None)


def test_a_programs_words_are_heard_and_kept_without_secrets(scratch: Build) -> None:
    heard: list[str] = []
    out = run(scratch, ["sh", "-c", "echo out; echo line >&2; echo API_TOKEN=hush >&2"], os.environ, "it", heard.append)
    assert (out, heard) == ("out\n", ["line", "API_TOKEN=hush"])  # who hears it passes on what is masked
    assert Path(scratch.log_path).read_text() == "line\nAPI_TOKEN=***\nout\n"


def test_a_program_that_fails_or_is_not_there(scratch: Build) -> None:
    with pytest.raises(BuildError, match=r"(?s)making failed with code 3.*no rule") as caught:
        run(scratch, ["sh", "-c", "echo no rule >&2; exit 3"], os.environ, "making")
    assert scratch.log_path in (caught.value.hint or "")
    with pytest.raises(BuildError, match="/nowhere cannot be executed"):
        run(scratch, ["/nowhere"], os.environ, "making")


def test_lines_of_bash_end_at_the_first_that_fails(scratch: Build) -> None:
    assert run_bash(scratch, ["echo shown", "echo kept >&3"], os.environ, "it") == "kept\n"
    with pytest.raises(BuildError, match=r"with code 1: false"):
        run_bash(scratch, ["false", "touch never"], os.environ, "it")
    assert not os.path.exists(os.path.join(scratch.prefix, "never"))
    found = environ_after(scratch, ["export A='x\ny'", "unset HOME"], {"HOME": "/h", "PATH": os.environ["PATH"]}, "it")
    assert found["A"] == "x\ny" and "HOME" not in found
    assert "x\ny" not in Path(scratch.log_path).read_text()


def test_another_environments_variables_stay_out() -> None:
    assert without_active_environment({"VIRTUAL_ENV": "/x", "PYTHONPATH": "/y", "A": "1"}) == {"A": "1"}


def test_uv_beside_this_python_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    with pytest.raises(ConfigError, match=r"worldsize\[env\]"):
        find_uv({"PATH": str(tmp_path)})
    (tmp_path / "uv").write_text("")
    (tmp_path / "uv").chmod(0o755)
    assert find_uv({"PATH": str(tmp_path)}) == str(tmp_path / "uv")


# lists


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("numpy", "numpy"),
        ("torch >= 2.0, <3", "pytorch >=2.0,<3"),
        ("opencv_python==4.8.0.76", "py-opencv ==4.8.0.76"),
        ("a===1.0", "a ==1.0"),
        ("a  (>= 1.0 ,\t<2  )", "a >=1.0,<2"),
        ("a~=1.2 --hash=sha256:00", "a ~=1.2"),
        ("a[x]", None),
        ("a[]>=1", None),
        ("a ; %s" % ("(" * 3000), None),
        ("a ; python_version < '3'", None),
        ("torch==2.0+cu118", None),
        ("a @ https://h/a.whl", None),
        ("a@b", None),
        ("a >> 1", None),
        ("a==1.0-x.y", None),
        ("git+https://h/a", None),
        ("-e .", None),
        ("/src/a", None),
        ("?", None),
    ],
)
def test_a_requirement_as_conda_would_be_asked(line: str, spec: str | None) -> None:
    found = parse_requirement(line)
    assert found.spec == spec
    assert bool(found.why) is (spec is None)


def test_brackets_without_extras_are_no_condition() -> None:
    assert parse_requirement("a []>=1").why == "has extras, which conda does not support"


@pytest.mark.parametrize("text", ["a%sx", "a%s@", "a [b]%sx", "a ==1%s@", "a (%sx", "-e%sx"])
def test_a_requirement_of_many_blanks(text: str) -> None:
    """Found by review: its blanks were shared out in all ways, for ever. The time limit of every test is the bound."""
    assert parse_requirement(text % (" " * 300_000)).spec is None


def test_lists_are_read_with_what_they_include(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("a  # one\n\n-r more.txt\nb\\\n>=1\n")
    (tmp_path / "more.txt").write_text("c\n./d\n")
    assert [each.line for each in read_list(str(tmp_path / "r.txt"))] == ["a", "c", "%s/d" % tmp_path, "b>=1"]


def test_what_does_not_fit_goes_to_pip_until_the_rest_does() -> None:
    """b and c cannot be together, and d fits with nothing: the solver complains of each in turn."""
    tried: list[tuple[str, ...]] = []

    def trial(specs: Sequence[str]) -> str | None:
        tried.append(tuple(specs))
        names = {each.partition(" ")[0] for each in specs}
        if "d" in names:
            return "d cannot be installed"
        return "b conflicts with c" if {"b", "c"} <= names else None

    lines = [parse_requirement(each) for each in ("a", "b>=1", "c", "d", "none", "e[x]")]
    found = propose(lines, "3.11", lambda specs: [each for each in specs if each != "none"], trial)
    assert found.conda == ("python=3.11", "a", "b>=1")
    assert found.pip == ("c", "d", "none", "e[x]")
    assert found.why == {
        "e[x]": "has extras, which conda does not support",
        "none": "is in none of the channels",
        "d": "does not fit with the others",
        "c": "does not fit with the others",
    }
    assert all(each[0] == "python 3.11.*" for each in tried)


def test_a_proposal_is_an_environment_file() -> None:
    import yaml

    found = propose(
        [parse_requirement("a>=1"), parse_requirement("b[x] ; python_version < '3'")],
        None,
        list,
        lambda specs: None,
    )
    assert yaml.safe_load(environment_yaml(found, "mine", ["conda-forge"])) == {
        "name": "mine",
        "channels": ["conda-forge"],
        "dependencies": ["python", "a>=1", {"pip": ["b[x] ; python_version < '3'"]}],
    }


def test_rattlers_program_finds_no_module_beside_itself(tmp_path: Path) -> None:
    """Found by review: what rattler imports, such as `secrets` or `pip`, would have been a file of worldsize's."""
    (tmp_path / "rattler.py").write_text("import json, sys\nsys.stderr.write(json.dumps(sys.path))\nsys.exit(9)\n")
    argv = [sys.executable, PROGRAM]
    done = subprocess.run(argv, input="{}", text=True, env={"PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE)
    assert done.returncode == 9 and os.path.dirname(PROGRAM) not in json.loads(done.stderr)


def test_an_order_that_nobody_reads(tmp_path: Path, scratch: Build) -> None:
    """Found by review: without rattler, an order of more than a pipe holds ended with a broken pipe."""
    (tmp_path / "rattler.py").write_text("raise ImportError('gone')\n")
    source = PackageSource(("conda-forge",), None, (), str(tmp_path))
    with pytest.raises(ConfigError, match=r"worldsize\[env\]"):
        packages_install(scratch, source, ["a" * (1 << 20)], {**os.environ, "PYTHONPATH": str(tmp_path)})
