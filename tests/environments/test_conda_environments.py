"""Conda environments from a local channel of real packages; pip after conda, and what happens when it breaks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import Cli
from server import serve
from wheels import Links

from worldsize.errors import UsageError
from worldsize.wings.environments.conda.packages import refuse_pip_packages

VERSION = "%d.%d" % sys.version_info[:2]


def build(cli: Cli, text: str, name: str = "environment.yml") -> str:
    """The prefix."""
    cli.write(name, text)
    return cli.ok("env", "build", name).out.strip()


def conda_file(channel: Path, *conda: str, pip: tuple[str, ...] = (), more: str = "") -> str:
    lines = ["channels: ['file://%s']" % channel, "dependencies:", *("- %s" % each for each in conda)]
    if pip:
        lines += ["- pip:", *("  - '%s'" % each for each in pip)]
    return "\n".join(lines) + "\n" + more


def versions(cli: Cli, name: str) -> dict[str, str]:
    found = cli.json("env", "show", name)
    return {row["name"]: row["version"] for row in [*found["conda"], *found["pip"]]}


def test_conda_then_pip_in_one_prefix_with_all_that_activation_does(cli: Cli, channel: Path, links: Links) -> None:
    """A solver's choice (alpha below 2), placeholders in text and binary, entry points, activate.d, env_vars.d; and pip
    on top, which keeps what conda installed."""
    links.wheel("demo", "1.0", requires=("alpha>=1",))
    links.wheel("alpha", "1.5")
    cli.write("env.yml", "name: mine\n" + conda_file(channel, "beta", "native", pip=(*links.lines, "demo")))
    cli.write(
        "job.yml",
        "command: native-where; alpha-say; echo $NATIVE_HOME $NATIVE_MODE $CONDA_PREFIX;"
        " python -c 'import sys, demo, beta, shared.util as u; print(demo.__version__, u.FROM, sys.prefix)'\n"
        "environment: env.yml\n",
    )
    printed = cli.ok("run", "job.yml").lines
    prefix = cli.json("env", "list")[0]["prefix"]
    assert os.path.basename(prefix).startswith("mine-")
    assert sorted(printed) == sorted(
        [
            "0:0: %s" % prefix,
            "0:0: alpha 1.1",
            "0:0: %s/share/native fast %s" % (prefix, prefix),
            "0:0: 1.0 conda %s" % prefix,
        ]
    )
    assert versions(cli, "mine") == {
        "alpha": "1.1", "beta": "1.0", "native": "1.2", "python": "%d.%d.%d" % sys.version_info[:3], "demo": "1.0",
    }  # fmt: skip
    assert Path(prefix, "etc", "native.conf").read_text() == "root = %s/share\n" % prefix
    assert cli("env", "show", "mine", "--verify").code == 0
    again = cli.ok("run", "job.yml")
    assert sorted(again.lines) == sorted(printed) and "building" not in again.err, "it is built once"


def test_pip_that_changes_a_file_of_condas_fails_the_build_with_the_names(
    cli: Cli, channel: Path, links: Links
) -> None:
    """beta of conda brings shared/util.py, and pip cannot know; intruder of pip brings it too."""
    links.wheel("intruder", "3.0", {"intruder.py": "", "shared/util.py": "FROM = 'pip, and longer'\n"})
    text = conda_file(channel, "beta", pip=(*links.lines, "intruder"))
    cli.write("environment.yml", text)
    result = cli("env", "build", "environment.yml")
    assert result.code == 1
    file = "lib/python%s/site-packages/shared/util.py" % VERSION
    assert "%s of beta was changed by intruder 3.0" % file in result.err
    assert "clobber: warn" in result.err
    assert cli.json("env", "list") == []
    prefix = build(cli, text + "clobber: warn\n")
    assert Path(prefix, file).read_text().startswith("FROM = 'pip")
    assert json.loads(Path(prefix, "worldsize-environment.json").read_text())["clobbered"] == [
        {"file": file, "package": "beta", "what": "changed", "by": "intruder 3.0"}
    ]
    verified = cli("env", "show", os.path.basename(prefix), "--verify")
    assert verified.code == 1 and file in verified.err


def test_the_packages_of_the_cache_stay_as_they_are_when_one_is_clobbered(
    cli: Cli, channel: Path, links: Links
) -> None:
    """Files of a prefix are links to a cache: whoever writes into one must not write into all environments."""
    links.wheel("intruder", "3.0", {"shared/util.py": "FROM = 'pip, and longer'\n"})
    build(cli, conda_file(channel, "beta", pip=(*links.lines, "intruder"), more="clobber: warn\n"))
    clean = build(cli, conda_file(channel, "beta"), "clean.yml")
    assert Path(clean, "lib/python%s/site-packages/shared/util.py" % VERSION).read_text() == "FROM = 'conda'\n"
    assert cli("env", "show", os.path.basename(clean), "--verify").code == 0


def test_pip_may_not_replace_what_conda_installed(cli: Cli, channel: Path, links: Links) -> None:
    links.wheel("alpha", "2.5")
    cli.write("environment.yml", conda_file(channel, "alpha=1.0", pip=(*links.lines, "alpha>=2")))
    result = cli("env", "build", "environment.yml")
    assert result.code == 1
    assert "alpha==1.0" in result.err and "pip may not change what conda installed" in result.err


def test_conda_refuses_an_environment_that_pip_has_touched(cli: Cli, channel: Path, links: Links) -> None:
    links.wheel("demo", "1.0")
    touched = build(cli, conda_file(channel, "alpha", pip=(*links.lines, "demo")))
    clean = build(cli, conda_file(channel, "alpha"), "clean.yml")
    with pytest.raises(UsageError, match="pip has installed demo there"):
        refuse_pip_packages(touched)
    refuse_pip_packages(clean)
    for prefix, said in ((touched, "pip has installed demo there"), (clean, "conda packages cannot be added to it")):
        cli.write("job.yml", "command: 'true'\nenvironment: {python: %s, conda: [beta]}\n" % prefix)
        result = cli("run", "job.yml")
        assert result.code == 2 and said in result.err, result


def test_pip_itself_refuses_to_change_a_built_environment(cli: Cli, channel: Path) -> None:
    """The mark of PEP 668, and conda's own."""
    prefix = build(cli, conda_file(channel, "alpha"))
    pip = [sys.executable, "-m", "pip", "--python", prefix + "/bin/python", "install", "--no-index", "demo"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "built by worldsize" in done.stderr
    assert "built by worldsize" in Path(prefix, "conda-meta", "frozen").read_text()


def test_what_the_nodes_have_decides_and_not_this_machine(cli: Cli, channel: Path) -> None:
    """The same spec, for a compute with a GPU driver and a newer C library, is another environment."""
    cli.write(
        "worldsize.toml",
        '[compute.gpu]\ntype = "local"\nvirtual_packages = ["__glibc=99.1", "__cuda=12.4"]\n'
        '[compute.old]\ntype = "local"\nvirtual_packages = ["__glibc=2.17"]\n',
    )
    cli.write("environment.yml", conda_file(channel, "accel==1.0", "modern"))
    found = {}
    for compute in ("gpu", "old"):
        prefix = cli.ok("env", "build", "environment.yml", "--compute", compute).out.strip()
        found[compute] = [Path(prefix, "share", name).read_text() for name in ("accel", "modern")]
    assert found == {"gpu": ["cuda\n", "new\n"], "old": ["cpu\n", "old\n"]}
    assert len(cli.json("env", "list")) == 2
    cli.write("environment.yml", conda_file(channel, "accel=1.0=cuda*"))
    result = cli("env", "build", "environment.yml", "--compute", "old")
    assert result.code == 1 and "__cuda" in result.err and "__glibc=2.17" in result.err


def test_a_name_and_a_python_are_all_that_conda_create_and_activate_were_told(cli: Cli, channel: Path) -> None:
    """`conda create --name mynewenv python=…` and `conda activate mynewenv`, as the job's own lines."""
    python = "%d.%d.%d" % sys.version_info[:3]
    cli.write(
        "job.yml",
        "command: python -c 'import platform, sys; print(platform.python_version(), sys.prefix)'\n"
        "environment: {name: mynewenv, channels: ['file://%s'], conda: [python=%s]}\n" % (channel, python),
    )
    printed = cli.ok("run", "job.yml").out
    prefix = cli.json("env", "list")[0]["prefix"]
    assert os.path.basename(prefix).startswith("mynewenv-")
    assert printed == "0:0: %s %s\n" % (python, prefix)


def test_an_inline_conda_file_of_azures_and_our_own_keys(cli: Cli, channel: Path) -> None:
    azure = "environment: {image: mcr.example/x, conda_file: {channels: ['file://%s'], dependencies: [alpha=1.0]}}\n"
    ours = "environment: {channels: ['file://%s'], conda: [alpha=1.0]}\n"
    cli.write("azure.yml", "command: alpha-say\n" + azure % channel)
    cli.write("ours.yml", "command: alpha-say\n" + ours % channel)
    first = cli.ok("run", "azure.yml")
    assert first.out == "0:0: alpha 1.0\n"
    assert "the container image mcr.example/x is not used" in first.err
    assert "building" not in cli.ok("run", "ours.yml").err
    assert len(cli.json("env", "list")) == 1


def test_a_mirror_by_alias_and_default_channels(cli: Cli, channel: Path, tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "conda-forge").symlink_to(channel)
    cli.write("worldsize.toml", '[conda]\nchannel_alias = "file://%s/mirror"\n' % tmp_path)
    prefix = build(cli, "dependencies: [alpha]\n")
    assert "alpha 2.0" in subprocess.run([prefix + "/bin/alpha-say"], capture_output=True, text=True, check=True).stdout
    assert versions(cli, os.path.basename(prefix))["alpha"] == "2.0"


def test_a_private_channel_with_credentials_of_rattler(cli: Cli, channel: Path, tmp_path: Path) -> None:
    with serve(channel, "anna", "open sesame") as served:
        text = "channels: [%s]\ndependencies: [alpha]\n" % served.url
        cli.write("environment.yml", text)
        refused = cli("env", "build", "environment.yml")
        assert refused.code == 1 and "a channel cannot be read" in refused.err and "credentials" in refused.err
        auth = tmp_path / "credentials.json"
        auth.write_text(json.dumps({"127.0.0.1": {"BasicHTTP": {"username": "anna", "password": "open sesame"}}}))
        own = {"RATTLER_AUTH_FILE": str(auth), "RATTLER_CACHE_DIR": str(tmp_path / "cache")}
        prefix = cli.ok("env", "build", "environment.yml", **own).out.strip()
        assert ("/noarch/alpha-2.0-0.tar.bz2", 200) in served.asked
    held = _texts(Path(prefix).parent)
    assert not [name for name, text in held.items() if "sesame" in text]


@pytest.mark.exhaustive
def test_a_password_in_a_channels_address_is_written_nowhere(cli: Cli, channel: Path, tmp_path: Path) -> None:
    with serve(channel, "anna", "sesame") as served:
        address = served.url.replace("http://", "http://anna:sesame@")
        cli.write("job.yml", "command: alpha-say\nenvironment: {channels: ['%s'], conda: [alpha]}\n" % address)
        run = cli.run("job.yml")
    prefix = cli.json("env", "list")[0]["prefix"]
    description = Path(prefix, "worldsize-environment.json").read_text()
    assert "sesame" not in description and "127.0.0.1" in description
    assert "sesame" not in cli.read(run, "environment.json") + cli.read(run, "record.json")
    assert "sesame" not in Path(prefix + ".log").read_text()
    cli.write("locked.yml", "command: alpha-say\nenvironment: %s\n" % cli.path(run, "environment.json"))
    cli.ok("env", "remove", os.path.basename(prefix))
    result = cli("run", "locked.yml")
    assert result.code == 1 and "does not contain the password" in result.err


def test_a_lock_builds_the_same_package_set(cli: Cli, channel: Path, links: Links, tmp_path: Path) -> None:
    """Also after the channel and the index have something newer, and in another place."""
    links.wheel("demo", "1.0")
    prefix = build(cli, "name: mine\n" + conda_file(channel, "alpha<2", "native", pip=(*links.lines, "demo")))
    lock = cli.ok("env", "lock", "environment.yml").out.strip()
    assert lock == "environment.lock.json"
    value = json.loads(cli.read_project(lock))
    assert {row["name"] for row in value["conda"]} == {"alpha", "native", "python"}
    assert all(len(row["sha256"]) == 64 for row in value["conda"])
    assert [(row["name"], len(row["hashes"])) for row in value["pip"]] == [("demo", 1)]
    assert prefix not in cli.read_project(lock)
    links.wheel("demo", "1.1")
    cli.write("worldsize.toml", 'envs_dir = "%s"\n' % (tmp_path / "elsewhere"))
    again = cli.json("env", "build", lock)
    assert again["prefix"].startswith(str(tmp_path / "elsewhere" / "mine-"))
    assert again["digest"] == value["digest"]
    assert versions(cli, "mine")["demo"] == "1.0"
    run = subprocess.run([again["prefix"] + "/bin/native-where"], capture_output=True, text=True, check=True)
    assert run.stdout == again["prefix"] + "\n"


def test_a_lock_holds_though_a_wheel_was_replaced(cli: Cli, channel: Path, links: Links, tmp_path: Path) -> None:
    links.wheel("demo", "1.0")
    build(cli, conda_file(channel, "alpha", pip=(*links.lines, "demo")))
    lock = cli.ok("env", "lock", "environment.yml").out.strip()
    links.wheel("demo", "1.0", {"demo.py": "import os\n"})
    cli.write("worldsize.toml", 'envs_dir = "%s"\n' % (tmp_path / "elsewhere"))
    result = cli("env", "build", lock, UV_CACHE_DIR=str(tmp_path / "empty"))
    assert result.code == 1 and "hash" in result.err.lower()


def test_a_lock_of_another_platform_is_refused(cli: Cli, channel: Path) -> None:
    """Its programs could not be executed here, and would be installed all the same."""
    build(cli, conda_file(channel, "native"))
    cli.ok("env", "lock", "environment.yml")
    cli.write(
        "other.lock.json", Path(cli.project, "environment.lock.json").read_text().replace("linux-64", "linux-ppc64le")
    )
    cli.ok("env", "remove", "conda")
    result = cli("env", "build", "other.lock.json")
    assert result.code == 1
    assert "the lock has conda packages for linux-ppc64le, and this machine is linux-" in result.err


def test_a_channel_that_is_not_there(cli: Cli) -> None:
    cli.write("environment.yml", "channels: ['file:///nowhere']\ndependencies: [alpha]\n")
    result = cli("env", "build", "environment.yml")
    assert result.code == 1
    assert "a channel cannot be read" in result.err and "/nowhere" in result.err


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [("alpha>5", 1, "alpha"), ("'alpha = = 1'", 2, "is not a conda package"), ("nosuch", 1, "nosuch")],
)
def test_what_cannot_be_solved(cli: Cli, channel: Path, spec: str, code: int, said: str) -> None:
    cli.write("environment.yml", conda_file(channel, spec))
    result = cli("env", "build", "environment.yml")
    assert (result.code, said in result.err) == (code, True), result
    assert "Traceback" not in result.err


def test_without_rattler_the_mend_is_named(cli: Cli, channel: Path, tmp_path: Path) -> None:
    (tmp_path / "broken" / "rattler").mkdir(parents=True)
    (tmp_path / "broken" / "rattler" / "__init__.py").write_text("raise ImportError('not here')\n")
    cli.write("environment.yml", conda_file(channel, "alpha"))
    path = "%s:%s" % (tmp_path / "broken", cli.environ["PYTHONPATH"])
    result = cli("env", "build", "environment.yml", PYTHONPATH=path)
    assert result.code == 2 and "pip install 'worldsize[env]'" in result.err


def _texts(directory: Path) -> dict[str, str]:
    return {
        str(path): path.read_text(errors="replace")
        for path in directory.rglob("*.json")
        if "worldsize" in path.name or "conda-meta" in str(path)
    }
