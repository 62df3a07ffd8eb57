"""The tests on a second release of Slurm: where its root comes from, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from scripts.environments import cache, roots
from scripts.testing import __main__ as command_line
from scripts.testing import second_slurm

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "environments" / "make-debian.sh"
APT = """#!/bin/sh
echo "$*" >> "$SAID"
[ "$1" != indextargets ] || printf 'Other https://packages.example.org/apt/\\nDebian http://mirror.example.org/debian/\\n'
"""
NOTE = '#!/bin/sh\necho "${0##*/} $*" >> "$SAID"\n'


def tools(tmp_path: Path, programs: Mapping[str, str]) -> dict[str, str]:
    """The environment in which these programs come first, and debootstrap knows the release; what they are asked is in
    `said`."""
    release = tmp_path / "debootstrap" / "scripts" / "trixie"
    release.parent.mkdir(parents=True)
    release.touch()
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": "%s:%s" % (folder, os.environ["PATH"]),
        "SAID": str(tmp_path / "said"),
        "DEBIAN_KEYS": __file__,
        "DEBOOTSTRAP_DIR": str(release.parents[1]),
    }


def make(tmp_path: Path, programs: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    environ = tools(tmp_path, {"id": "#!/bin/sh\necho 0\n", "unshare": NOTE, "sh": NOTE, **programs})
    command = ["/bin/sh", str(SCRIPT), str(tmp_path / "root"), "trixie"]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def test_the_root_comes_from_the_archive_of_this_machine_and_is_checked(tmp_path: Path) -> None:
    done = make(tmp_path, {"apt-get": APT, "debootstrap": NOTE})
    said = (tmp_path / "said").read_text().splitlines()
    bootstrap = next(line for line in said if line.startswith("debootstrap "))
    assert done.returncode == 0, done
    assert bootstrap.endswith(" trixie %s http://mirror.example.org/debian/" % (tmp_path / "root"))
    assert " --force-check-gpg --keyring=%s " % __file__ in bootstrap


def test_where_apt_has_no_archive_of_debian_debootstrap_has_one(tmp_path: Path) -> None:
    done = make(tmp_path, {"apt-get": APT.replace("Debian http", "Ubuntu http"), "debootstrap": NOTE})
    said = (tmp_path / "said").read_text().splitlines()
    assert done.returncode == 0 and "update -qq" in said
    assert next(line for line in said if line.startswith("debootstrap ")).endswith(" trixie %s" % (tmp_path / "root"))


@pytest.mark.parametrize(
    ("programs", "lack"),
    [
        ({"id": "#!/bin/sh\necho 1000\n"}, "needs root"),
        ({"apt-get": APT, "debootstrap": "#!/bin/sh\nexit 1\n"}, "debootstrap could not make Debian trixie"),
        ({"apt-get": APT, "debootstrap": NOTE, "unshare": "#!/bin/sh\nexit 1\n"}, "does not let root make mount"),
        ({"apt-get": APT, "debootstrap": NOTE, "sh": "#!/bin/sh\nexit 100\n"}, "packages of Debian trixie could not"),
    ],
)
def test_what_this_machine_lacks_is_said(tmp_path: Path, programs: Mapping[str, str], lack: str) -> None:
    done = make(tmp_path, programs)
    assert done.returncode == 3 and lack in done.stdout.splitlines()[-1], done


def test_a_root_is_made_once_and_again_when_a_script_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def build(slurm: str, target: str) -> None:
        made.append(slurm)
        os.makedirs(target)

    for name in roots.INPUTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("true\n")
    monkeypatch.setenv("WORLDSIZE_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(roots, "ROOT", str(tmp_path))
    monkeypatch.setattr(roots, "_build", build)
    monkeypatch.setattr(roots, "_starts", lambda root: True)
    first = roots.obtain_root("24.11")
    assert (roots.obtain_root("24.11"), made) == (first, ["24.11"])
    (tmp_path / roots.INPUTS[0]).write_text("false\n")
    assert roots.obtain_root("24.11") != first and len(made) == 2
    used = os.path.getmtime(os.path.join(first, cache.MARKER))
    assert len(cache.remove_unused(str(tmp_path / "cache"), used + 40 * 86400)) == 2


@pytest.fixture
def without_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in roots.CERTIFICATES:
        monkeypatch.delenv(name, raising=False)


def test_certificates_that_are_asked_for_are_seen(monkeypatch: pytest.MonkeyPatch, without_certificates: None) -> None:
    """Once each, where a root has its own."""
    one, two = "/etc/ssl/one.pem", "/home/anna/two.pem"
    for name, path in zip(roots.CERTIFICATES, (one, one, two, ""), strict=True):
        monkeypatch.setenv(name, path)
    assert [path for path in roots.seen() if path.endswith(".pem")] == [one]


@pytest.mark.parametrize("base", ["/usr", "/usr/local", "/home/anna/pythons/3.11"])
def test_the_interpreter_is_seen_wherever_it_lies(
    base: str, monkeypatch: pytest.MonkeyPatch, without_certificates: None
) -> None:
    monkeypatch.setattr(sys, "base_prefix", base)
    monkeypatch.setattr(sys, "prefix", "/var/lib/tests/.venv")
    monkeypatch.setenv("WORLDSIZE_TEST_CACHE", "/var/cache/tests")
    monkeypatch.setattr(roots, "ROOT", "/home/anna/checkout")
    name = "python%d.%d" % sys.version_info[:2]
    expected = {
        "/usr": ["/usr/bin/python3", "/usr/bin/" + name, "/usr/lib/" + name],
        "/usr/local": ["/usr/local"],
    }.get(base, [])
    assert roots.seen() == [*expected, "/var/lib/tests/.venv", "/var/cache/tests/environments"]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_without_a_root_the_closing_line_says_so(
    ci: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(slurm: str) -> str:
        raise roots.NotPossible("needs root")

    monkeypatch.setattr(second_slurm, "obtain_root", refuse)
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("WORLDSIZE_TEST_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.delenv("WORLDSIZE_TEST_OUTCOMES", raising=False)
    assert command_line.main(["all", "--slurm", "24.11"]) == code
    assert (tmp_path / "summary").read_text() == "==== Slurm 24.11: skipped, needs root ====\n"
    assert "THE TESTS ON SLURM 24.11 ARE SKIPPED" in capfd.readouterr().err


@pytest.mark.parametrize("words", [["changed", "--base", "HEAD"], ["all", "--part", "unit"]])
def test_only_the_part_slurm_runs_there(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([*words, "--slurm", "24.11"]) == 2
    assert capsys.readouterr().err == "--slurm: standard, rest or all of part slurm\n"


def test_the_tests_there_are_those_of_this_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(second_slurm, "obtain_root", lambda slurm: "/the/root")
    monkeypatch.setattr(second_slurm, "inside", lambda root: ["enter", root])
    monkeypatch.setattr(subprocess, "call", lambda words, cwd: asked.append(words) or 7)
    assert command_line.main(["all", "--slurm", "24.11", "-k", "cancel"]) == 7
    words = ["-m", "scripts.testing", "all", "--part", "slurm", "--name", "Slurm 24.11", "-k", "cancel"]
    assert asked == [["enter", "/the/root", sys.executable, *words]]
