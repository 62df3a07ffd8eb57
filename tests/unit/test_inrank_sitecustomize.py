"""What every Python of a rank loads: any that its program starts, also one too old for the rest of worldsize."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import installed

HOOK = Path(__file__).parents[2] / "src" / "worldsize" / "inrank" / "sitecustomize.py"
SOURCE = HOOK.read_text()
NEWER = (
    *(ast.JoinedStr, ast.AnnAssign, ast.Nonlocal, ast.NamedExpr, ast.YieldFrom, ast.Await, ast.Starred),
    *(ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.MatMult, ast.Match),
)
FUTURES = {"absolute_import", "division", "print_function", "unicode_literals"}


def newer_syntax(source: str) -> list[str]:
    """What Python 2.7 does not know, or takes for something else, with its line."""
    try:
        tree = ast.parse(source, feature_version=(3, 4))
    except SyntaxError as error:
        return [str(error)]
    found = []
    for node in ast.walk(tree):
        newer = isinstance(node, NEWER)
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            arguments = node.args
            newer = bool(arguments.kwonlyargs or arguments.posonlyargs)
            newer |= bool(getattr(node, "returns", None)) or any(each.annotation for each in arguments.args)
        elif isinstance(node, ast.ClassDef):
            newer = bool(node.keywords)
        elif isinstance(node, ast.Raise):
            newer = node.cause is not None
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            newer = any(alias.name not in FUTURES for alias in node.names)
        elif isinstance(node, ast.Call):
            newer = isinstance(node.func, ast.Name) and (
                node.func.id == "print" or (node.func.id == "super" and not node.args)
            )
        if newer:
            found.append("%s at line %d" % (type(node).__name__, getattr(node, "lineno", 0)))
    return found


@pytest.mark.parametrize(
    "line",
    [
        *("from __future__ import annotations", "x: int = 1", "def f(a: int): pass", "def f() -> None: pass"),
        *("def f(*, a): pass", "class A(metaclass=B): pass", "raise ValueError() from None", "print(1)", "1_000"),
        *("def f():\n    a = 1\n    def g():\n        nonlocal a", "[*a]"),
    ],
)
def test_newer_syntax_is_found(line: str) -> None:
    assert newer_syntax(line)


def test_it_is_written_for_python_2_and_3() -> None:
    """Found by review: Python 3.6 and 2.7 said `'import sitecustomize' failed` in each process of a rank."""
    assert newer_syntax(SOURCE) == []
    assert SOURCE.isascii(), "Python 2 takes no other characters without a coding line"


OLD = """
import sys
sys.version_info = %r
if sys.version_info < (3,):
    sys.modules["_frozen_importlib_external"] = None
    import types
    imp = sys.modules["imp"] = types.ModuleType("imp")
    def find_module(name, path):
        import os
        for each in path:
            if os.path.isfile(os.path.join(each, name + ".py")):
                return open(os.path.join(each, name + ".py")), os.path.join(each, name + ".py"), (".py", "r", 1)
        raise ImportError(name)
    def load_module(name, file, place, description):
        exec(compile(file.read(), place, "exec"), {"__name__": name, "__file__": place})
    imp.find_module, imp.load_module = find_module, load_module
hook = sys.excepthook
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), {"__name__": "sitecustomize", "__file__": sys.argv[1]})
print("as before" if sys.excepthook is hook else "ours")
"""


def places(tmp_path: Path) -> dict[str, str]:
    """The hook first, then a user's own sitecustomize."""
    for name, text in (("hook", SOURCE), ("own", "print('mine')\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORLDSIZE"))}
    path = "%s:%s" % (tmp_path / "hook", tmp_path / "own")
    return {**kept, "PYTHONPATH": path, "WORLDSIZE_ERROR_FILE": str(tmp_path / "error.json")}


def output(argv: list[str], environ: dict[str, str]) -> str:
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("version", "whose"),
    [((2, 7, 18), "as before"), ((3, 6, 15), "as before"), ((3, 7, 0), "ours"), (tuple(sys.version_info[:3]), "ours")],
)
def test_an_old_python_gets_the_users_own_and_nothing_else(
    tmp_path: Path, version: tuple[int, ...], whose: str
) -> None:
    environ = places(tmp_path)
    argv = [sys.executable, "-S", "-c", OLD % (version,), str(tmp_path / "hook" / "sitecustomize.py")]
    assert output(argv, environ).split("\n")[:2] == ["mine", whose]


def test_without_a_sitecustomize_of_the_users(tmp_path: Path) -> None:
    environ = places(tmp_path)
    (tmp_path / "own" / "sitecustomize.py").unlink()
    argv = [sys.executable, "-S", "-c", OLD % ((2, 7, 18),), str(tmp_path / "hook" / "sitecustomize.py")]
    assert output(argv, environ) == "as before\n"


def test_without_the_folder_of_what_every_run_has(tmp_path: Path) -> None:
    """As where a run is removed while a process of it starts: `python` prints no error, and runs the user's own."""
    environ = {**places(tmp_path), "WORLDSIZE_INRANK": "hangs"}
    found = subprocess.run([sys.executable, "-c", ""], env=environ, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "mine\n", "")


@pytest.mark.heavy
def test_the_old_pythons_that_are_here(tmp_path: Path) -> None:
    """None, on many machines: what is above holds there."""
    environ = places(tmp_path)
    for python in installed("2.7", "3.4", "3.5", "3.6", "3.7"):
        argv = [python, "-c", "import sys; sys.stdout.write('ran')"]
        found = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, timeout=60)
        assert (found.stdout.replace("\n", " "), found.stderr) == ("mine ran", ""), python


@pytest.mark.heavy
def test_old_pythons_say_once_that_they_load_nothing_more(tmp_path: Path) -> None:
    environ = {**places(tmp_path), "WORLDSIZE_INRANK": "data_parallel"}
    for version in ("2.7", "3.6", "3.7"):
        for python in installed(version):
            for rank, said in (("0", 1), ("1", 0)):
                argv = [python, "-c", "import sys; sys.stdout.write('ran')"]
                variables = {**environ, "WORLDSIZE_RANK": rank}
                found = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True, timeout=60)
                words = "worldsize: Python %s is too old for data parallel in ranks: 3.8 or newer is needed\n" % version
                assert found.stdout.endswith("ran") and found.stderr == words * said, python


@pytest.mark.parametrize(("program", "is_rank"), [("torchrun", True), ("train.py", False)])
def test_what_a_launcher_starts_in_its_own_place_is_the_ranks_python(
    tmp_path: Path, program: str, is_rank: bool
) -> None:
    says = "import os; print(os.environ['WORLDSIZE_RANK_PYTHON'].split()[0] == str(os.getpid()))"
    starts = "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', %r]).decode())" % says
    (tmp_path / program).write_text(says + "\n" + starts)
    environ = {"PYTHONPATH": str(HOOK.parent), "WORLDSIZE_ERROR_FILE": "/nonexistent", "RANK": "0", "LOCAL_RANK": "0"}
    found = output([sys.executable, str(tmp_path / program)], environ).split()
    assert found == ["True", str(is_rank)]
