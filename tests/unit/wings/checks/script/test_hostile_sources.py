"""Sources that nobody should have: survived, in bounded time, without a word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.service.submission.plain_script import MOST_BYTES
from worldsize.wings.checks.script.facts import script_facts
from worldsize.wings.checks.script.findings import RULES, script_findings
from worldsize.wings.checks.script.reading.program import read_program
from worldsize.wings.checks.script.reading.sources import MOST_FILES
from worldsize.wings.checks.script.request import ScriptRequest

WRONG = """import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2)).sum().backward()
optimizer.step()
"""
PIECES = [*WRONG.split("\n"), *"()[]=:.,'\n ", "dist.get_rank()", "if ", "def f(): ", "for x in "]
NOTHING = {"modules": [], "workers": None, "backend": None, "hosts": []}


def still() -> float:
    return 0.0


def request(folder: Path, *argv: str) -> ScriptRequest:
    return ScriptRequest(str(folder), argv or ("python", "train.py"), 2, 2, 4, 2, 8)


def ids(folder: Path) -> list[str]:
    return [each.id for each in script_findings(request(folder), still)]


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\x00" * 100,
        WRONG.encode() + b"\x00",
        b"\xff\xfe" + WRONG.encode("utf-16-le"),
        b"# -*- coding: no-such-code -*-\n" + WRONG.encode(),
        b"# -*- coding: latin-1 -*-\nprint('\xe9'\n",
        b"print 'two'\n",
        b"x = " + b"(" * 5000 + b")" * 5000,
        b"x = " + b"-" * 100_000 + b"1",
        b"x = " + b"[" * 150 + b"1" + b"]" * 150,
        b"x = a" + b".b" * 100_000,
        b"x = 1" + b" + 1" * 100_000,
        b"x = f" + b"()" * 50_000,
        b"x = '" + b"y" * 500_000 + b"'",
        b"x = " + b"9" * 100_000,
        b"if a: pass\n" + b"elif a: pass\n" * 3000,
        b"\n".join(b" " * depth + b"if a:" for depth in range(99)) + b"\n" + b" " * 99 + b"pass",
        b"from . import train\nfrom .. import train\nfrom ...... import x\nimport train\nimport train.train\n",
        b"import os; os.environ[1] = 2; os.environ['MASTER_ADDR'] += 'x'\n",
        b"def f(a, a2=1, *b, c, **d): return f(a=1)\nf(*f, **f)\nlambda: (yield)\n",
    ],
)
def test_a_strange_source_is_survived(source: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(source)
    assert ids(tmp_path) == []
    assert set(script_facts(request(tmp_path), still)) == set(NOTHING)


def test_no_rule_stumbles_over_a_call_that_has_no_arguments(tmp_path: Path) -> None:
    names = "init_process_group DataLoader DistributedSampler spawn set_device Trainer save init initialize device to "
    names += "add_argument getenv environ manual_seed from_pretrained urlopen MNIST step backward parameters"
    lines = [f"{name}()\n{name}(*a, **b)\nx.{name}(1, 2, 3, 4, 5, 6)\n{name}.y[0]" for name in names.split()]
    (tmp_path / "train.py").write_text("import torch\nimport torch.distributed\n" + "\n".join(lines))
    program = read_program(request(tmp_path), still)
    assert program is not None
    assert [each for rule in RULES for each in rule(program)] == []


def test_names_that_are_bound_in_circles_end(tmp_path: Path) -> None:
    lines = [f"a{n} = a{(n + 1) % 9} if a{(n + 2) % 9} else a{(n + 3) % 9}" for n in range(9)] * 9
    calls = "\n".join(f"def f{n}(x):\n    f{(n + 1) % 9}(a{n})\n    f{(n + 2) % 9}(x)" for n in range(9))
    loops = "import torch, os\n" + "\n".join(lines) + "\n" + calls + "\ntorch.cuda.set_device(a1)\nf0(a2)\n"
    (tmp_path / "train.py").write_text(loops + "torch.device('cuda', a3)\ntorch.distributed.init_process_group(a1)")
    assert ids(tmp_path) == []


def test_links_out_of_the_code_are_not_followed(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (tmp_path / "secret.py").write_text(WRONG)
    (code / "train.py").symlink_to(tmp_path / "secret.py")
    assert ids(code) == []
    (code / "real.py").write_text(WRONG)
    (code / "train.py").unlink()
    (code / "train.py").symlink_to("real.py")
    assert ids(code) == ["script.not_distributed"]
    assert [each.id for each in script_findings(request(code, "python", "../secret.py"), still)] == []
    assert [each.id for each in script_findings(request(code, "python", str(tmp_path / "secret.py")), still)] == []


@pytest.mark.parametrize("name", ["none.py", "a" * 5000 + ".py", "a\x00b.py"])
def test_a_script_that_is_not_there(name: str, tmp_path: Path) -> None:
    assert script_findings(request(tmp_path, "python", name), still) == []
    assert script_facts(request(tmp_path / "none", "python", name), still) == NOTHING


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    assert ids(tmp_path) == []
    (tmp_path / "train.py").unlink()
    (tmp_path / "train.py").mkdir()
    assert ids(tmp_path) == []


def test_too_much_is_silent(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG + "#" * MOST_BYTES)
    assert ids(tmp_path) == []
    imports = "".join(f"import m{number}\n" for number in range(MOST_FILES))
    for number in range(MOST_FILES):
        (tmp_path / f"m{number}.py").write_text("")
    (tmp_path / "train.py").write_text(imports + WRONG)
    assert ids(tmp_path) == []
    (tmp_path / "train.py").write_text(imports.partition("\n")[2] + WRONG)
    assert ids(tmp_path) == ["script.not_distributed"]


@pytest.mark.parametrize(
    "source",
    [
        "from one import " + ", ".join(f"n{number}" for number in range(10_000)),
        "\n".join(f"import a{number}" for number in range(10_001)),
    ],
)
def test_no_more_than_some_thousand_names_are_looked_for(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.py").write_text("")
    (tmp_path / "train.py").write_text(source + "\n" + WRONG)
    looked: list[str] = []
    is_file = os.path.isfile
    monkeypatch.setattr(os.path, "isfile", lambda path: looked.append(path) or is_file(path))
    assert ids(tmp_path) == []
    assert len(looked) < 50_000


def test_a_data_set_that_is_called_as_a_package_is_not_listed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        name = "image.png"

        def __iter__(self) -> Endless:
            return self

        def __next__(self) -> Endless:
            return self

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    (tmp_path / "datasets").mkdir()
    (tmp_path / "train.py").write_text("import datasets\n" + WRONG)
    monkeypatch.setattr(os, "scandir", lambda path: Endless())
    assert ids(tmp_path) == ["script.not_distributed"]


@pytest.mark.heavy
def test_an_f_string_that_takes_minutes_to_parse_is_not_parsed(tmp_path: Path) -> None:
    fields = "{a}" * 150_000
    (tmp_path / "train.py").write_text(f"x = f'{fields}'\n" + WRONG)
    assert ids(tmp_path) == []
    (tmp_path / "train.py").write_text("y = f'{1}'\n" * 5000 + WRONG)
    assert ids(tmp_path) == ["script.not_distributed"]


@pytest.mark.parametrize("late", range(1, 6))
def test_what_takes_too_long_is_silent(late: int, tmp_path: Path) -> None:
    ticks = iter([0.0] * late + [9.0] * 100)
    for name in ("train", "one", "two"):
        (tmp_path / f"{name}.py").write_text("import one, two\n" + WRONG)
    assert script_findings(request(tmp_path), lambda: next(ticks)) == []


@settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES)))
def test_pieces_of_sources_are_survived(tmp_path: Path, pieces: list[str]) -> None:
    (tmp_path / "train.py").write_text("".join(pieces))
    script_findings(request(tmp_path), still)
