"""The site's file: its two names, the tables that only it may have, and who may write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config import load
from worldsize.jobspec.config.config import Config, ForbiddenRule
from worldsize.jobspec.config.load import load_config

RULE = '[[forbidden]]\nkey = "slurm.exclusive"\nwhy = "ask first"\n'


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of /etc/worldsize."""
    directory = tmp_path / "etc"
    directory.mkdir()
    names = ("config.toml", "worldsize.toml")
    monkeypatch.setattr(load, "SITE_FILES", tuple(str(directory / name) for name in names))
    return directory


def loaded(tmp_path: Path, **environ: str) -> Config:
    return load_config(str(tmp_path), {"HOME": str(tmp_path / "home"), **environ})


def refusal(tmp_path: Path, text: str) -> str:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, WORLDSIZE_SITE_CONFIG=str(tmp_path / "site.toml"))
    return str(caught.value).replace(str(tmp_path) + "/", "")


def test_config_toml_is_read_first(installed: Path, tmp_path: Path) -> None:
    (installed / "worldsize.toml").write_text('home = "/old"')
    assert loaded(tmp_path).home == "/old"
    (installed / "config.toml").write_text('home = "/new"')
    config = loaded(tmp_path)
    assert config.home == "/new" and config.files == {str(installed / "config.toml"): "site"}


def test_the_defaults_of_both_spellings_have_their_lines(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(
        '[defaults]\n"limits.timeout" = 60\ntags.a = "b"\nslurm = {account = "x", sbatch_options = {mail-type = "A"}}\n'
        'bind = "none"\n[defaults.environment_variables]\nA = 1\n"B.C" = "2"\n'
    )
    config = loaded(tmp_path, WORLDSIZE_SITE_CONFIG=str(site))
    assert {name: (node.value, node.line) for name, node in config.defaults.items()} == {
        "limits.timeout": (60, 2),
        "tags.a": ("b", 3),
        "slurm.account": ("x", 4),
        "slurm.sbatch_options.mail-type": ("A", 4),
        "bind": ("none", 5),
        "environment_variables.A": (1, 7),
        "environment_variables.B.C": ("2", 8),
    }
    assert config.origins["defaults.limits.timeout"] == str(site)


def test_a_rule_has_its_line_and_its_options_are_those_of_slurm(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(
        "%s\n[[forbidden]]\nkey = 'slurm.sbatch_options.QOS'\n" % RULE
        + "value = ['High', 4, true]\ncomputes = ['local']\nwhy = 'x'"
    )
    assert loaded(tmp_path, WORLDSIZE_SITE_CONFIG=str(site)).forbidden == (
        ForbiddenRule("slurm.exclusive", "ask first", "%s:1" % site),
        ForbiddenRule("slurm.qos", "x", "%s:5" % site, ("high", "4", "true"), ("local",)),
    )


BAD = [
    ("[defaults]\nslurm.acount = 'x'", "site.toml:2: slurm.acount: is not a key of slurm", "did you mean 'account'?"),
    ("[defaults]\nx = 1", "site.toml:2: x: is not a key of a job", ""),
    ("[defaults]\n'limits.timeout' = -1", "site.toml:2: limits.timeout: is -1, must be more than 0", ""),
    ("[defaults]\ncommand = 'true'", "site.toml:2: defaults.command: belongs to one job", ""),
    ("[defaults]\nresources.instance_count = 2", "defaults.resources.instance_count: belongs to one job", ""),
    ("[defaults]\ncompute = 'x'", "site.toml:2: defaults.compute", "set default_compute"),
    ("defaults = 3", "site.toml:1: defaults: expected a mapping", ""),
    ("[forbidden]\nkey = 'a'", "forbidden: expected a list of tables", "write [[forbidden]] above each rule"),
    ("[[forbidden]]\nkey = 'slurm.qos'", "site.toml:1: forbidden.why: is missing", ""),
    ("[[forbidden]]\nwhy = 'x'", "site.toml:1: forbidden.key: is missing", ""),
    (RULE + "values = 3", "site.toml:4: forbidden.values: is not a key of forbidden", "did you mean 'value'?"),
    (RULE + "value = {a = 1}", "site.toml:4: forbidden.value: expected text", ""),
    (RULE + "computes = ['lob']", "site.toml:4: forbidden.computes: there is no compute 'lob'", "there are: local"),
    (RULE.replace("exclusive", "exclude_"), "site.toml:2: forbidden.key: 'exclude_' is not a key of slurm", "exclude"),
]


@pytest.mark.parametrize(("text", "message", "hint"), BAD)
def test_a_wrong_site_file_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str, hint: str) -> None:
    shown = refusal(tmp_path, text)
    assert message in shown and hint in shown


@pytest.mark.parametrize("table", ["[defaults]\nbind = 'none'", RULE])
@pytest.mark.parametrize("place", ["home/.config/worldsize", "."])
def test_only_the_site_has_these_tables(tmp_path: Path, table: str, place: str) -> None:
    file = tmp_path / place / "worldsize.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n" + table)
    with pytest.raises(ConfigError, match="is only for the site's file") as caught:
        loaded(tmp_path)
    assert caught.value.where == "%s:2" % file and "/etc/worldsize/config.toml" in str(caught.value.hint)


def test_another_site_file_leaves_the_rules_of_etc_in_force(installed: Path, tmp_path: Path) -> None:
    (installed / "config.toml").write_text('home = "/of-etc"\n[defaults]\nbind = "none"\n' + RULE)
    other = tmp_path / "other.toml"
    other.write_text(RULE.replace("slurm.exclusive", "slurm.qos"))
    config = loaded(tmp_path, WORLDSIZE_SITE_CONFIG=str(other))
    assert [rule.key for rule in config.forbidden] == ["slurm.qos", "slurm.exclusive"]
    assert not config.defaults and config.home != "/of-etc"
    assert [rule.key for rule in loaded(tmp_path, WORLDSIZE_SITE_CONFIG="/none").forbidden] == ["slurm.exclusive"]


def test_a_site_file_that_others_may_write_to_does_not_count(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('home = "/shared"\n' + RULE)
    site.chmod(0o666)
    config = loaded(tmp_path, WORLDSIZE_SITE_CONFIG=str(site))
    assert config.home != "/shared" and not config.forbidden and not config.files
    assert "%s is ignored: every user may write to it" % site in config.notices[0]
