"""What ranks execute or load by a name of the machine that submits."""

from __future__ import annotations

from pathlib import Path

from worldsize.environment.activation import paths_in_variables, with_interpreters


def test_each_variable_has_separators_of_its_own() -> None:
    assert paths_in_variables({"LD_PRELOAD": "/a.so /b.so:/c.so", "HOME": "/home"}) == ("/a.so", "/b.so", "/c.so")
    assert paths_in_variables({"LD_LIBRARY_PATH": "/a;/b c:d"}) == ("/a", "/b c")
    assert paths_in_variables({"PYTHONPATH": "/a b:", "BASH_ENV": "/e:f", "PATH": None}) == ("/a b", "/e:f")


def test_the_interpreters_that_are_there(tmp_path: Path) -> None:
    """Found by review: a directory of that name, which the login node lacks, was left out."""
    (tmp_path / "python").symlink_to("nowhere")
    missing = "/missing/python"
    assert with_interpreters([str(tmp_path), missing, "."]) == (str(tmp_path), str(tmp_path / "python"), missing)
