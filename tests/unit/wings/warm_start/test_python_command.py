"""What is read of a command as one Python with a script, and what is left to the shell."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.warm_start.judgement.python_command import PythonCommand, python_command


def read(text: str) -> PythonCommand | None:
    return python_command(("bash", "-c", text))


@pytest.mark.parametrize(
    ("text", "script", "module", "words"),
    [
        ("python train.py", "train.py", "", ["python", "train.py"]),
        ("python3.11 -u train.py --lr 0.1", "train.py", "", ["python3.11", "-u", "train.py", "--lr", "0.1"]),
        ("/env/bin/python train.py", "train.py", "", ["/env/bin/python", "train.py"]),
        ("python -m pkg.train -x", "", "pkg.train", ["python", "-m", "pkg.train", "-x"]),
        (
            "python -uO -X dev -Wignore -W error t.py",
            "t.py",
            "",
            shlex.split("python -uO -X dev -Wignore -W error t.py"),
        ),
        ("python t.py 'a b' \"c $RANK\" d\\ e", "t.py", "", ["python", "t.py", "a b", "c 3", "d e"]),
        ("python t.py --rank=$RANK ${RANK}x", "t.py", "", ["python", "t.py", "--rank=3", "3x"]),
        ("python t.py '' \"\"", "t.py", "", ["python", "t.py", "", ""]),
        ("A=1 B='x y' python t.py", "t.py", "", ["python", "t.py"]),
        ("python \\\n  t.py \\\n  --a\n", "t.py", "", ["python", "t.py", "--a"]),
        ("python t.py '{\"a\": 1}' a#b c=~d", None, None, None),
        ("python t.py '{\"a\": [1, 2]}' a#b", "t.py", "", ["python", "t.py", '{"a": [1, 2]}', "a#b"]),
        ('python t.py "\\$RANK \\""', "t.py", "", ["python", "t.py", '$RANK "']),
    ],
)
def test_a_python_with_a_script(text: str, script: str | None, module: str | None, words: list[str] | None) -> None:
    found = read(text)
    if words is None:
        assert found is None
        return
    assert found is not None
    assert (found.script, found.module, found.expand({"RANK": "3"})) == (script, module, words)


@pytest.mark.parametrize(
    "text",
    [
        "", "python", "python -", "python -c 'x'", "python -m", "python -i t.py", "python -I t.py", "python -E t.py",
        "python -S t.py", "python -X importtime t.py", "python -X", "python t.py; true", "python t.py && true",
        "python t.py | tee log", "python t.py > log", "python t.py &", "cd src && python t.py", "(python t.py)",
        "python t.py $(date)", "python t.py `date`", "python t.py *.txt", "python t.py a?", "python t.py [ab]",
        "python t.py {a,b}", "python t.py ~/data", "python t.py #comment", "python t.py ! x", "! python t.py",
        "PYTHONPATH=src python t.py", "PATH=. python t.py", "LD_PRELOAD=x python t.py", "python t.py ${A:-b}",
        "python t.py $1", "python t.py $$", "python t.py \"`date`\"", "python t.py 'open", "python t.py \"open",
        "python t.py \\", "python $SCRIPT", "$PYTHON t.py", "torchrun t.py", "uv run python t.py", "pythonw t.py",
        "exec python t.py", "time python t.py", "A=1", "python -u", "python t.py\ntrue",
    ],
)  # fmt: skip
def test_whatever_else_a_shell_does_is_left_to_it(text: str) -> None:
    assert read(text) is None


def test_words_without_a_shell() -> None:
    found = python_command(("python", "t.py", "$A", "a b"))
    assert found is not None and found.expand({"A": "1"}) == ["python", "t.py", "$A", "a b"]
    assert python_command(("A=1", "python", "t.py")) is None
    assert python_command(()) is None


@pytest.mark.parametrize("value", ["a b", "*", "", "a\tb", "x?"])
def test_a_value_that_a_shell_would_split(value: str) -> None:
    found, quoted = read("python t.py $A"), read('python t.py "$A"')
    assert found is not None and found.expand({"A": value}) is None
    assert quoted is not None and quoted.expand({"A": value}) == ["python", "t.py", value]


def test_the_variables_of_a_command() -> None:
    found = read('python t.py $A "${B}-$C"')
    assert found is not None and found.variables() == ["A", "B", "C"]


@given(st.text(st.sampled_from("ab $\"'\\=-{}#~!*?\n;|&A_0.,:"), max_size=12))
def test_where_words_are_read_bash_reads_the_same(text: str) -> None:
    """With a function in Python's place, which prints its words."""
    found = read("python t.py " + text)
    if found is None:
        return
    environ = {"A": "v", "A_": "w", "a": "", "PATH": "/usr/bin:/bin"}
    words = found.expand(environ)
    if words is None:
        return
    program = "python() { printf '%s\\0' python \"$@\"; }\npython t.py " + text
    done = subprocess.run(["bash", "-c", program], env=environ, capture_output=True, text=True)
    assert done.stdout.split("\0")[:-1] == words, done.stderr
