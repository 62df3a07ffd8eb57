"""Functions that are called once a module has been imported."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from worldsize.inrank.import_hook import call_after_import

SOURCE = Path(inspect.getfile(call_after_import)).parent


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return tmp_path


def test_called_in_order_after_the_module_was_executed(importing: Path) -> None:
    (importing / "late_one.py").write_text("VALUE = 7\n")
    seen: list[tuple[str, int]] = []
    call_after_import("late_one", lambda module: seen.append(("first", module.VALUE)))
    call_after_import("late_one", lambda module: seen.append(("second", module.VALUE)))
    assert seen == []
    module = __import__("late_one")
    assert seen == [("first", 7), ("second", 7)]
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert "VALUE" in inspect.getsource(module)


def test_called_at_once_when_it_is_there_already(importing: Path) -> None:
    seen: list[str] = []
    call_after_import("json", lambda module: seen.append(module.__name__))
    assert seen == ["json"]


def test_a_submodule_and_a_module_that_fails_at_first(importing: Path) -> None:
    package = importing / "late_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("import os\nif not os.environ.pop('LATE', None): raise OSError('not yet')\n")
    seen: list[str] = []
    call_after_import("late_package.part", lambda module: seen.append(module.__name__))
    with pytest.raises(OSError, match="not yet"):
        __import__("late_package.part")
    assert seen == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATE", "1")
        __import__("late_package.part")
    assert seen == ["late_package.part"]


def test_packages_that_a_variable_names_are_told_of_the_start_and_of_torch(tmp_path: Path) -> None:
    packages = tmp_path / "worldsize_inrank"
    packages.mkdir()
    for name in ("sitecustomize.py", "import_hook.py"):
        place = packages if name == "import_hook.py" else tmp_path
        (place / name).write_text((SOURCE / name).read_text())
    for name in ("one", "two"):
        (packages / (name + ".py")).write_text("def on_torch(torch): torch.said.append('%s')\n" % name)
    with open(packages / "two.py", "a") as file:
        file.write("def at_start(): print('before torch')\n")
    (tmp_path / "torch.py").write_text("said = []\n")
    code = "import sys; print('torch' in sys.modules); import torch; print(torch.said)"
    environ = {"PYTHONPATH": str(tmp_path), "WORLDSIZE_INRANK": "one,two"}
    out = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["before torch", "False", "['one', 'two']"]
