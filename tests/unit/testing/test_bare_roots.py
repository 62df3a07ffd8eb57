"""`make bare-root`: what of this machine is seen in the root of a machine that nobody has set up, and what is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from scripts.environments import bare_root, roots

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "scripts"
LISTING = """:env:.timeout='7'
global.extra-index-url='\\nhttps://one.example.org/simple\\nfile:///srv/index/simple'
global.cache-dir='/var/cache/pip'
install.no-binary='horovod'
freeze.timeout='10'
"""
APT = """#!/bin/sh
case $1 in
indextargets) printf '%s\\n' "$INDEX" ;;
esac
"""
APT_CONFIG = """#!/bin/sh
echo 'Acquire::http::Proxy "http://proxy.example.org:3128";'
echo 'Acquire::Languages "none";'
"""
NOTE = '#!/bin/sh\necho "${0##*/} $*" >> "$SAID"\n'


def test_pip_finds_packages_as_on_this_machine() -> None:
    """What configures where pip puts things does not count."""
    assert bare_root.pip_options(LISTING) == {
        "PIP_EXTRA_INDEX_URL": "https://one.example.org/simple file:///srv/index/simple",
        "PIP_NO_BINARY": "horovod",
    }


def test_only_how_packages_are_reached_is_seen_there() -> None:
    environ = {
        "HOME": "/home/anna",
        "PYTHONPATH": "src",
        "https_proxy": "http://proxy.example.org:3128",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/etc/ssl/own.pem",
        "PIP_CERT": "",
        "PIP_TARGET": "/home/anna/packages",
        "PIP_NO_BINARY": ":none:",
        "CI": "true",
        "TOKEN": "secret",
    }
    assert bare_root.carried(environ, LISTING, ["CI", "ABSENT"]) == {
        "PIP_EXTRA_INDEX_URL": "https://one.example.org/simple file:///srv/index/simple",
        "PIP_NO_BINARY": ":none:",
        "https_proxy": "http://proxy.example.org:3128",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/etc/ssl/own.pem",
        "CI": "true",
    }


def test_the_files_and_folders_that_are_named_are_seen(tmp_path: Path) -> None:
    """Each once, and an index with the folder beside it where the packages lie."""
    index, wheels, constraints = tmp_path / "an index" / "simple", tmp_path / "wheels", tmp_path / "constraints.txt"
    index.mkdir(parents=True)
    wheels.mkdir()
    constraints.touch()
    variables = {
        "PIP_EXTRA_INDEX_URL": "https://one.example.org/simple %s/" % index.as_uri(),
        "PIP_FIND_LINKS": "%s %s /" % (wheels, tmp_path / "absent"),
        "PIP_CONSTRAINT": str(constraints),
        "PIP_BUILD_CONSTRAINT": str(constraints),
        "PIP_TIMEOUT": "10",
    }
    assert bare_root.named_paths(variables) == [str(index.parent), str(wheels), str(constraints)]


@pytest.mark.parametrize(("account", "home"), [("root", "/root"), ("user", "/home/stranger")])
def test_make_sees_the_environment_of_its_account(account: str, home: str) -> None:
    words = bare_root.make_command(bare_root.ACCOUNTS[account], {"PIP_TIMEOUT": "7", "HOME": "/home/anna"}, ["demo"])
    assert words[:2] == ["env", "-i"] and words[-4:] == ["make", "-C", home + "/worldsize", "demo"]
    assert "HOME=" + home in words and "HOME=/home/anna" not in words and "PIP_TIMEOUT=7" in words
    assert words[words.index("--reuid") + 1] == ("root" if account == "root" else "stranger")


def make(
    tmp_path: Path, programs: Mapping[str, str], index: str, system: str = "ubuntu-24.04"
) -> subprocess.CompletedProcess[str]:
    """Run make-bare-root.sh where these programs come first; what they are asked is in `said`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "root" / "etc" / "apt" / "apt.conf.d").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "apt" / "auth.conf.d").mkdir()
    common = {"id": "#!/bin/sh\necho 0\n", "unshare": NOTE, "sh": NOTE, "apt-get": APT, "apt-config": APT_CONFIG}
    for name, text in {**common, "debootstrap": NOTE, **programs}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (tmp_path / "releases" / "scripts").mkdir(parents=True)
    (tmp_path / "releases" / "scripts" / "bookworm").touch()
    environ = {
        **os.environ,
        "PATH": "%s:%s" % (folder, os.environ["PATH"]),
        "SAID": str(tmp_path / "said"),
        "INDEX": index,
        "DEBIAN_KEYS": __file__,
        "UBUNTU_KEYS": __file__,
        "DEBOOTSTRAP_DIR": str(tmp_path / "releases"),
    }
    command = ["/bin/sh", str(ROOT / bare_root.SCRIPT), str(tmp_path / "root"), *bare_root.SYSTEMS[system], "stranger"]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def test_the_root_of_a_release_that_debootstrap_does_not_know_yet(tmp_path: Path) -> None:
    done = make(tmp_path, {}, "Debian http://mirror.example.org/debian/")
    assert done.returncode == 0, done
    said = (tmp_path / "said").read_text().splitlines()
    bootstrap = next(line for line in said if line.startswith("debootstrap ")).split()
    assert bootstrap[-3:-1] == [str(tmp_path / "root"), "http://archive.ubuntu.com/ubuntu"]
    assert bootstrap[-4] == "noble" and bootstrap[-1].endswith("/scripts/gutsy")
    assert "--force-check-gpg" in bootstrap and "--components=main,universe" in bootstrap
    configured = (tmp_path / "root" / "etc" / "apt" / "apt.conf.d" / "00machine").read_text()
    assert configured == 'Acquire::http::Proxy "http://proxy.example.org:3128";\n'


def test_the_root_comes_from_the_archive_of_this_machine(tmp_path: Path) -> None:
    done = make(tmp_path, {}, "Debian http://mirror.example.org/debian/", "debian-12")
    assert done.returncode == 0, done
    bootstrap = next(line for line in (tmp_path / "said").read_text().splitlines() if line.startswith("debootstrap "))
    assert bootstrap.endswith(" bookworm %s http://mirror.example.org/debian/" % (tmp_path / "root"))


def test_what_this_machine_lacks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = make(tmp_path, {"debootstrap": "#!/bin/sh\nexit 1\n"}, "Debian http://mirror.example.org/debian/")
    assert done.returncode == 3 and done.stdout.splitlines()[-1] == "debootstrap could not make Ubuntu noble"

    def refuse(system: str) -> str:
        raise roots.NotPossible("needs root")

    monkeypatch.setattr(bare_root, "obtain_root", refuse)
    assert bare_root.main(["--system", "debian-13"]) == 2
    assert capsys.readouterr().err == "!!  no bare root of debian-13: needs root\n"


PROBE = """
import os, sys
assert os.listdir("/home") == ["anna"] and not os.path.exists(sys.argv[1]), "other files are seen"
assert os.path.samefile("/proc/self", "/proc/%d" % os.getpid()), "/proc is not of this process table"
assert len([name for name in os.listdir("/proc") if name.isdigit()]) <= 3, "other processes are seen"
assert os.listdir("/dev/shm") == [] and os.isatty(os.openpty()[1])
assert open(sys.argv[2]).read() == "of the machine"
try:
    open("/usr/written", "w")
except OSError as error:
    print(error.strerror)
child = os.fork()
if not child:
    os.setsid()
    os.execlp("sleep", "sleep", "1000.25")
sys.exit(7)
"""


@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount: sudo make test")
def test_a_command_in_a_bare_root_sees_no_other_files_and_leaves_nothing(tmp_path: Path) -> None:
    """The root is an empty one with this machine's /usr."""
    root = tmp_path / "root"
    for name in ("etc", "proc", "sys", "run", "dev", "home/anna", "tmp"):
        (root / name).mkdir(parents=True)
    libraries = [name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32") if os.path.islink("/" + name)]
    for name in libraries:
        (root / name).symlink_to("usr/" + name)
    named = tmp_path / "named"
    named.write_text("of the machine")
    seen = ["/usr", sys.base_prefix, os.path.realpath("/etc/ld.so.cache"), str(named)]
    probe = root / "tmp" / "probe.py"
    probe.write_text(PROBE)
    python = os.path.realpath(sys.executable)
    done = subprocess.run(
        ["sh", str(ROOT / bare_root.ENTER), str(root), python, "/tmp/probe.py", str(ROOT), str(named)],
        env={**os.environ, "SEEN": ":".join(dict.fromkeys(seen))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "Read-only file system\n"), done
    assert b"sleep\x001000.25" not in b"".join(_command_lines()), "a process is left"
    assert str(root) not in Path("/proc/self/mountinfo").read_text() and os.listdir(root / "usr") == []


def _command_lines() -> list[bytes]:
    lines = []
    for name in os.listdir("/proc"):
        try:
            lines += [Path("/proc", name, "cmdline").read_bytes()] if name.isdigit() else []
        except OSError:
            continue
    return lines
