"""scripts/system-packages.sh and what says which package is missing: what is installed, and what is said where not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
NOTE = '#!/bin/sh\necho "${0##*/} $*" >> "$SAID"\n'
OWN = ("sh", "cat", "sed", "ls", "rm", "chmod", "dirname")
"""What the scripts themselves need."""


def run(
    tmp_path: Path, script: Path, programs: Mapping[str, str], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script where there are no programs but these; what they are asked is in `said`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in OWN:
        (folder / name).symlink_to(shutil.which(name) or "/absent")
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    # The scripts look in /usr/sbin by themselves.
    text = script.read_text().replace("PATH=$PATH:/usr/sbin:/sbin\n", "").replace("/usr/", "%s/usr/" % tmp_path)
    (tmp_path / "script").write_text(text)
    environ = {"PATH": str(folder), "SAID": str(tmp_path / "said"), **variables}
    command = [shutil.which("sh") or "sh", str(tmp_path / "script")]
    return subprocess.run(command, cwd=SCRIPTS.parent, env=environ, capture_output=True, text=True, check=False)


def apt(*unknown: str) -> dict[str, str]:
    """An apt that knows all packages but these, and refuses to install anything with them."""
    refuse = "".join("case \" $* \" in *' %s '*) exit 100 ;; esac\n" % name for name in unknown)
    return {"apt-get": NOTE + refuse, "apt-cache": "#!/bin/sh\n%s" % refuse, "id": "#!/bin/sh\necho 0\n"}


def test_a_package_that_this_distribution_lacks_keeps_no_other_away(tmp_path: Path) -> None:
    """Found on a bare Ubuntu: its apt knows no chromium-headless-shell, and nothing at all was installed."""
    (tmp_path / "usr" / "sbin").mkdir(parents=True)
    done = run(tmp_path, SCRIPTS / "system-packages.sh", apt("chromium-headless-shell"))
    (install,) = (line for line in (tmp_path / "said").read_text().splitlines() if " install " in line)
    assert {"slurm-wlm", "munge", "dataset-fashion-mnist"} <= set(install.split()), install
    assert done.returncode == 0 and "THE TESTS IN A BROWSER WILL BE SKIPPED" in done.stderr, done
    assert "SLURM" not in done.stderr
    assert len(install.split()) == len(set(install.split())), "a package is named once"


def test_under_ci_nothing_may_be_lacking(tmp_path: Path) -> None:
    (tmp_path / "usr" / "sbin").mkdir(parents=True)
    assert run(tmp_path, SCRIPTS / "system-packages.sh", apt("munge"), CI="true").returncode == 1


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("apt-get", "sudo apt-get install python3 python3-venv"),
        ("dnf", "sudo dnf install python3"),
        ("zypper", "sudo zypper install python311"),
        ("pacman", "sudo pacman -S python"),
        ("apk", "sudo apk add python3"),
    ],
)
def test_a_machine_without_python_is_told_what_to_install(tmp_path: Path, tool: str, said: str) -> None:
    done = run(tmp_path, SCRIPTS / "need-python.sh", {tool: NOTE, "id": "#!/bin/sh\necho 1000\n"})
    assert done.returncode == 2 and done.stderr.endswith(", for example: %s\n" % said), done
    assert "no Python found" in done.stderr and not (tmp_path / "said").exists()


def test_a_python_without_venv_is_told_the_package_of_its_version(tmp_path: Path) -> None:
    python = "#!/bin/sh\ncase $2 in *ensurepip*) exit 1 ;; *print*) echo python3.12-venv ;; esac\n"
    programs = {"python3.12": python, "apt-get": NOTE, "id": "#!/bin/sh\necho 1000\n"}
    done = run(tmp_path, SCRIPTS / "need-python.sh", programs, PYTHON="python3.12")
    assert done.returncode == 2, done
    said = "make: python3.12 has no venv module. Install it first, for example: sudo apt-get install python3.12-venv\n"
    assert done.stderr == said


def test_where_nothing_installs_packages_none_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "need-python.sh", {"id": "#!/bin/sh\necho 1000\n"})
    assert done.returncode == 2 and done.stderr.endswith("and python3). Install it first\n"), done
