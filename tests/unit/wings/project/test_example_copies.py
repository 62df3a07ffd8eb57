"""The examples that come along: their index tells of each, and copies run where they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from in_process import InProcess

from worldsize.errors import ConfigError
from worldsize.jobspec.reading.job_file import load_job
from worldsize.wings.project import examples
from worldsize.wings.project.examples import examples_directory, files_of, read_examples

ROOT = Path(__file__).resolve().parents[4]
DIRECTORY = examples_directory()
NAMES = sorted(each.name for each in (ROOT / "examples").iterdir() if each.is_dir())


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    return InProcess(str(tmp_path))


def test_the_index_tells_of_each_example() -> None:
    found = read_examples(DIRECTORY)
    assert sorted(example.name for example in found) == NAMES
    for example in found:
        assert example.description and example.needs and example.time and example.commands, example


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_names_nothing_outside_it(name: str, tmp_path: Path) -> None:
    for path, data in files_of(DIRECTORY, name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    for path in tmp_path.rglob("job.yml"):
        job = load_job(str(path)).job
        assert job.code == str(tmp_path / "src") and os.path.isdir(job.code)
        assert job.environment is None or str(job.environment).startswith("azureml:")
    assert not any(b'code=\\"..' in path.read_bytes() for path in tmp_path.rglob("*.ipynb"))


def test_one_is_copied_and_nothing_is_overwritten(cli: InProcess) -> None:
    done = cli("examples", "hello")
    assert (done.code, done.out) == (0, "worldsize run hello/job.yml\n"), done
    assert "wrote 2 files to hello\n" in done.err and "it needs torch" in done.err
    os.remove(os.path.join(cli.project, "hello", "job.yml"))
    cli.write("hello/src/hello.py", "mine\n")
    refused = cli("examples", "hello")
    assert refused.code == 2 and "hello/src/hello.py: exists already; nothing was copied" in refused.err
    assert cli.read_project("hello/src/hello.py") == "mine\n"
    assert not os.path.exists(os.path.join(cli.project, "hello", "job.yml"))
    assert cli("examples", "hello", "--to", "mine/one").out == "worldsize run mine/one/job.yml\n"
    assert cli("examples", "hello", "--force").code == 0
    assert cli.read_project("hello/src/hello.py") != "mine\n"


def test_the_list_and_a_copy_as_json(cli: InProcess) -> None:
    listed = json.loads(cli("examples", "-o", "json").out)
    assert [sorted(each) for each in listed] == [["commands", "description", "name", "needs", "time"]] * len(NAMES)
    copied = json.loads(cli("examples", "digits", "-o", "json").out)
    assert copied["directory"] == os.path.join(cli.project, "digits") and copied["files"] == ["job.yml", "src/train.py"]
    assert copied["commands"] == "worldsize run digits/job.yml -w 2x2"
    assert "digits " in cli("examples").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("digts",), "there is no example 'digts'\n  → did you mean 'digits'?\n"),
        (("--to", "here"), "--to and --force need the NAME of an example\n"),
    ],
)
def test_mistakes(cli: InProcess, words: tuple[str, ...], said: str) -> None:
    done = cli("examples", *words)
    assert done.code == 2 and said in done.err


def test_what_cannot_be_written_is_told(cli: InProcess) -> None:
    cli.write("file", "")
    done = cli("examples", "hello", "--to", "file/copy")
    assert done.code == 1 and "cannot write: Not a directory" in done.err


def test_an_installation_without_them_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(examples, "source_file", lambda *names: str(tmp_path.joinpath(*names)))
    with pytest.raises(ConfigError, match="not include the examples") as caught:
        examples_directory()
    assert "worldsize's source code" in str(caught.value.hint)
