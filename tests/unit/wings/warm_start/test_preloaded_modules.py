"""What a module does as it is imported before ranks are forked: each rank has it as in a plain start, or all start
plainly."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from driver import wait_for
from preloaded_node import BASE, IS_FORKED, Node, is_alive

SCRIPT = """
import gc, sys
print("forked" if IS_FORKED else "plain")
""".replace("IS_FORKED", IS_FORKED)
PLAIN, WARM = ["plain\n", "plain\n"], ["forked\n", "forked\n"]

MAPS = """
import mmap, os
with open(os.environ['HOME'] + '/x', 'w+b') as file:
    file.write(b'x')
    file.flush()
    %s
"""
DOUBTS = {
    "thread": ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", "a thread"),
    "thread of C": ("import faulthandler\nfaulthandler.dump_traceback_later(1000)", "a thread"),
    "process": ("import subprocess\nsubprocess.Popen(['sleep', '1000'])", "has started a process"),
    "fork": ("import os, time\nif os.fork() == 0:\n    time.sleep(1000)", "has started a process"),
    "file": ("file = open(__file__)", "keeps %(libraries)s/does.py open"),
    "socket": ("import socket\nown = socket.socket()", "keeps socket:["),
    "pipe": ("import os\nboth = os.pipe()", "keeps pipe:["),
    "deleted": ("import tempfile\nfile = tempfile.TemporaryFile()", "(deleted) open"),
    "shared memory": ("import mmap\nown = mmap.mmap(-1, 4096)", "shares memory: /dev/zero"),
    "mapped file": (MAPS % "own = mmap.mmap(file.fileno(), 0)", "/home/x open"),
    "no such module": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "error": ("raise ValueError('by intent')", "ValueError: by intent"),
    "syntax": ("(", "SyntaxError"),
    "exit": ("import sys\nsys.exit(0)", "SystemExit: 0"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "exit at once": ("import os\nos._exit(0)", "the process that preloads has ended"),
    "signal": ("import os\nos.kill(os.getpid(), 11)", "the process that preloads has ended"),
    "another program": ("import os\nos.execvp('sleep', ['sleep', '0'])", "the process that preloads has ended"),
    "no streams": ("import sys\nsys.stdout = object()", "AttributeError"),
}


@pytest.mark.parametrize(("text", "doubt"), DOUBTS.values(), ids=list(DOUBTS))
def test_ranks_start_plainly(node: Node, text: str, doubt: str) -> None:
    node.script(SCRIPT)
    node.library("does", text)
    found = node.run(["decimal", "does"]).doubt
    assert doubt % {"libraries": node.libraries} in found
    assert node.logs() == PLAIN and node.codes == {0: 0, 1: 0}
    wait_for(lambda: not is_alive(node.preloader))


HARMLESS = {
    "a thread that has ended": "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()",
    "a process that has ended": "import subprocess\nsubprocess.run(['true'])",
    "closed files": "with open(__file__) as file:\n    file.read()",
    "nothing": "file = open('/dev/null')",
    "own memory": "import mmap\nown = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
    "a file that is mapped for itself": MAPS % "mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY).close()",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=list(HARMLESS))
def test_ranks_are_forked(node: Node, text: str) -> None:
    node.script(SCRIPT)
    node.library("does", text)
    assert node.run(["does"]).doubt == ""
    assert [log.strip() for log in node.logs()] == ["forked", "forked"]


PRINTS = """
import os, sys
print("first")
os.write(1, b"second\\n")
print("third", file=sys.stderr)
os.system("echo fourth")
print("x" * 200000)
print("no end of line", end="")
"""


@pytest.mark.parametrize("options", ["", "-u"])
def test_what_modules_print_is_in_the_log_of_each_rank(nodes: Callable[..., Node], options: str) -> None:
    found = []
    for modules in (("prints",), ("no.such.module",)):
        node = nodes()
        node.script("import prints, os, sys\nprint('rank', os.environ['RANK'])\nsys.stderr.write('end')")
        node.library("prints", PRINTS)
        node.run(modules, "python %s train.py" % options)
        found.append([sorted(log.splitlines()) if not options else log for log in node.logs()])
    assert found[0] == found[1] and "first" in found[0][0] and "x" * 200000 in "".join(found[0][1])


def test_what_is_printed_before_a_doubt_is_printed_once(node: Node) -> None:
    node.script("import prints")
    node.library("prints", "print('once')\nimport os\nfile = os.open(__file__, os.O_RDONLY)")
    assert "prints.py open" in node.run(["prints"]).doubt
    assert node.logs() == ["once\n", "once\n"]


def test_modules_see_no_rank_and_each_rank_sees_its_own(node: Node) -> None:
    node.library(
        "looks", "import os\nfound = [os.environ.get(name) for name in ('RANK', 'WORLD_SIZE', 'SLURM_PROCID')]"
    )
    node.script("import looks, os\nprint(looks.found, os.environ['RANK'])\nos.system('echo $RANK $WORLD_SIZE')")
    assert node.run(["looks"], command="python -u train.py").doubt == ""
    assert node.logs() == ["[None, '2', None] %d\n%d 2\n" % (rank, rank) for rank in range(2)]


def test_only_what_the_command_has_of_the_first_rank_is_seen(node: Node) -> None:
    """The shell puts it into the command."""
    node.library("looks", "import os\nfound = [os.environ.get(name) for name in ('RANK', 'LOCAL_RANK')]")
    node.script("import looks, os, sys\nprint(looks.found, os.environ['RANK'], sys.argv[1])")
    assert node.run(["looks"], command="python train.py $RANK").doubt == ""
    assert node.logs() == ["['0', None] %d %d\n" % (rank, rank) for rank in range(2)]


# what is loaded before the script, and not by it


def test_a_sitecustomize_of_the_users(node: Node) -> None:
    node.library("sitecustomize", "print('customized')")
    node.script(SCRIPT)
    assert "sitecustomize.py is loaded before the script" in node.run().doubt
    assert node.logs() == ["customized\nplain\n"] * 2


def user_site(node: Node) -> Path:
    name = "python%d.%d" % sys.version_info[:2]
    path = node.home / ".local" / "lib" / name / "site-packages"
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("file", "text", "doubt"),
    [
        ("usercustomize.py", "print('loaded')", "usercustomize.py is loaded before the script"),
        ("own.pth", "import sys; sys.settrace(lambda *_: None)", "a debugger or profiler"),
        ("own.pth", "import sys; sys.setprofile(lambda *_: None)", "a debugger or profiler"),
        ("own.pth", "import sys; sys.modules['coverage'] = sys", "coverage was loaded"),
        ("own.pth", "import os; os.write(2, b'loaded')", "Python printed something"),
    ],
)
def test_what_lies_in_the_users_packages(nodes: Callable[..., Node], file: str, text: str, doubt: str) -> None:
    node = nodes(python=BASE)
    (user_site(node) / file).write_text(text)
    node.script(SCRIPT)
    assert doubt in node.run(command="python -u train.py").doubt
    assert [log.replace("loaded", "").split() for log in node.logs()] == [["plain"], ["plain"]]


def test_a_usercustomize_that_python_does_not_load(nodes: Callable[..., Node]) -> None:
    node = nodes(python=BASE)
    (user_site(node) / "usercustomize.py").write_text("print('loaded')")
    node.script(SCRIPT)
    assert node.run(PYTHONNOUSERSITE="1").doubt == "" and node.logs() == WARM


def test_what_a_module_registers_is_called_in_each_rank(node: Node) -> None:
    node.library("registers", "import atexit\natexit.register(print, 'at exit')\nimport signal\n"
                 "signal.signal(signal.SIGUSR1, lambda *_: print('signal'))")  # fmt: skip
    node.script("import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('end')")
    assert node.run(["registers"]).doubt == ""
    assert node.logs() == ["signal\nend\nat exit\n"] * 2


def test_a_rank_that_is_ended_by_a_signal(node: Node) -> None:
    node.script("import os\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), 9)")
    assert node.run().doubt == "" and node.codes == {0: 0, 1: 128 + signal.SIGKILL}


def test_where_the_working_directory_is(node: Node) -> None:
    node.script("import os, sys\nprint(os.getcwd(), sys.path[0])", "sub/train.py")
    assert node.run(command="python sub/train.py").doubt == ""
    assert node.logs() == ["%s %s\n" % (node.paths.code, os.path.join(node.paths.code, "sub"))] * 2
