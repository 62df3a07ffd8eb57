"""`preload`: a word or a list of modules; in jobs, configurations, a variable and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from worldsize.errors import ConfigError, JobError
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Job
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.service.secrets import masked_job_text

VALUES = {
    "off": ("off",), "OFF": ("off",), "Off": ("off",), "false": ("off",), '"off"': ("off",), "no": ("off",),
    "[]": ("off",), "[off]": ("off",), '["OFF"]': ("off",),
    "auto": ("auto",), "Auto": ("auto",), "AUTO": ("auto",), "[auto]": ("auto",),
    "[torch]": ("torch",), "[torch, torch.nn, _x1]": ("torch", "torch.nn", "_x1"), "[torch, torch]": ("torch",),
    '["ünï"]': ("ünï",), '["yes"]': ("yes",),
}  # fmt: skip
NAME = "expected the name of a module, found "
WRONG = {
    "torch": (
        "preload",
        "expected auto, off or a list of modules, found 'torch' (text)",
        "such as [torch, torchvision]",
    ),
    "true": ("preload", "expected auto, off or a list of modules, found true", "such as [torch, torchvision]"),
    "on": ("preload", "expected auto, off or a list of modules, found on", "such as [torch, torchvision]"),
    "1": ("preload", "expected auto, off or a list of modules, found 1", "such as [torch, torchvision]"),
    "{torch: 1}": (
        "preload",
        "expected auto, off or a list of modules, found a mapping",
        "such as [torch, torchvision]",
    ),
    "[auto, torch]": ("preload[0]", "auto cannot be in a list", "preload: auto, or a list of modules"),
    "[torch, off]": ("preload[1]", "off cannot be in a list", "preload: off, or a list of modules"),
    "[torch, scikit-learn]": ("preload[1]", NAME + "'scikit-learn' (text)", "as an import names it, such as torch.nn"),
    '["torch,timm"]': ("preload[0]", NAME + "'torch,timm' (text)", "as an import names it, such as torch.nn"),
    "[torch.]": ("preload[0]", NAME + "'torch.' (text)", "as an import names it, such as torch.nn"),
    '[""]': ("preload[0]", NAME, "as an import names it, such as torch.nn"),
    "[.torch]": ("preload[0]", NAME + "'.torch' (text)", "as an import names it, such as torch.nn"),
    "[true]": ("preload[0]", NAME + "true", "as an import names it, such as torch.nn"),
    "[1]": ("preload[0]", NAME + "1", "as an import names it, such as torch.nn"),
    "[[torch]]": ("preload[0]", NAME + "a list", "as an import names it, such as torch.nn"),
}


def job_with(value: str) -> Job:
    return parse_job("command: python t.py\npreload: %s\n" % value, "job.yml").job


@pytest.mark.parametrize(("value", "expected"), VALUES.items())
def test_a_job_says_it(value: str, expected: tuple[str, ...]) -> None:
    assert job_with(value).preload == expected


def test_a_job_that_does_not_say() -> None:
    assert parse_job("command: python t.py\n", "job.yml").job.preload == ()


@pytest.mark.parametrize(("value", "told"), WRONG.items())
def test_what_is_wrong_is_told_with_its_line_its_key_and_what_to_do(value: str, told: tuple[str, str, str]) -> None:
    with pytest.raises(JobError) as caught:
        job_with(value)
    key, what, hint = told
    assert caught.value.where == "job.yml:2"
    assert caught.value.what.startswith("%s: %s" % (key, what)) and caught.value.hint == hint


@pytest.mark.parametrize("value", VALUES)
def test_what_a_run_keeps_is_read_as_the_same(value: str) -> None:
    """A plain `off` in YAML is false."""
    job = job_with(value)
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("true",), {})
    for text in (dump_job(job), masked_job_text(job, plan)):
        assert parse_job(text, "job.yml").job == job
        assert tuple(yaml.safe_load(text)["preload"]) == job.preload


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("preload=off", ("off",)), ("preload=OFF", ("off",)), ("preload=false", ("off",)), ("preload=auto", ("auto",)),
        ("preload=[torch]", ("torch",)), ("preload=[torch, timm]", ("torch", "timm")), ("preload=[]", ("off",)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [(), ("off",), ("auto",), ("numpy",)])
def test_the_command_line_says_it(setting: str, expected: tuple[str, ...], before: tuple[str, ...]) -> None:
    assert apply_overrides(Job(command="x", preload=before), [setting]).preload == expected


def test_the_command_line_says_something_wrong() -> None:
    with pytest.raises(JobError) as caught:
        apply_overrides(Job(command="x"), ["preload=torch"])
    assert caught.value.where == "--set preload" and "such as [torch, torchvision]" in str(caught.value.hint)


# the configuration


def load(tmp_path: Path, text: str = "", **environ: str):
    (tmp_path / "worldsize.toml").write_text(text)
    variables = {"HOME": str(tmp_path), "WORLDSIZE_SITE_CONFIG": str(tmp_path / "worldsize.toml"), **environ}
    return load_config("/", variables)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"off"', ("off",)), ("false", ("off",)), ("[]", ("off",)), ('"AUTO"', ("auto",)),
        ('["torch", "timm"]', ("torch", "timm")),
    ],
)  # fmt: skip
def test_a_configuration_says_it(tmp_path: Path, value: str, expected: tuple[str, ...]) -> None:
    config = load(tmp_path, 'preload = %s\n[compute.lab]\ntype = "slurm"\npreload = %s' % (value, value))
    assert config.preload == config.computes["lab"].preload == expected
    assert config.computes["local"].preload == ()
    place = str(tmp_path / "worldsize.toml")
    assert config.origins["preload"] == config.origins["compute.lab.preload"] == place


def test_without_a_word_it_is_auto(tmp_path: Path) -> None:
    assert load(tmp_path).preload == load(tmp_path, 'home = "x"').preload == ("auto",)


@pytest.mark.parametrize("table", ["", '[compute.lab]\ntype = "slurm"\n'])
@pytest.mark.parametrize(
    ("value", "key", "what"),
    [('"torch"', "preload", "expected auto, off"), ("true", "preload", "expected auto, off"),
     ('["a b"]', "preload[0]", NAME), ('["auto", "torch"]', "preload[0]", "auto cannot be in a list")],
)  # fmt: skip
def test_a_configuration_says_something_wrong(tmp_path: Path, table: str, value: str, key: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, table + "preload = " + value)
    assert str(caught.value.where).startswith(str(tmp_path / "worldsize.toml")) and caught.value.hint
    assert caught.value.what.startswith("%s%s: %s" % ("compute.lab." if table else "", key, what))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("off", ("off",)), (" OFF ", ("off",)), ("Auto", ("auto",)), ("torch", ("torch",)),
        ("torch, torch.nn", ("torch", "torch.nn")),
    ],
)  # fmt: skip
def test_the_variable_wins_over_the_files(tmp_path: Path, value: str, expected: tuple[str, ...]) -> None:
    text = 'preload = ["numpy"]\n[compute.lab]\ntype = "slurm"\npreload = "auto"'
    config = load(tmp_path, text, WORLDSIZE_PRELOAD=value)
    assert config.preload == expected and config.origins["preload"] == "WORLDSIZE_PRELOAD"
    assert config.computes["lab"].preload == ("auto",)
    assert load(tmp_path, "", WORLDSIZE_PRELOAD=value).preload == expected


def test_an_empty_variable_says_nothing(tmp_path: Path) -> None:
    config = load(tmp_path, 'preload = "off"', WORLDSIZE_PRELOAD="")
    assert config.preload == ("off",)


@pytest.mark.parametrize("value", ["torch,", "off,torch", "a-b", " "])
def test_the_variable_says_something_wrong(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, WORLDSIZE_PRELOAD=value)
    assert str(caught.value.where).startswith("WORLDSIZE_PRELOAD") and caught.value.hint
