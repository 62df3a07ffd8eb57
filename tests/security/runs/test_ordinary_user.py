"""What guides call user space: an ordinary user, who can become nobody else, builds an environment and runs in it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import wait_for
from security.people import Machine, Person
from tests.environments.wheels import Links

CLARA = 61009
"""Nobody else in these tests: all of her processes are this test's."""

WHO = "import os; print(os.getuid(), open('/proc/self/status').read().partition('CapEff:\\t')[2].split()[0])"


@pytest.fixture
def clara(machine: Machine) -> Iterator[Person]:
    """With uv, as the client's own installation brings it; `setpriv` lets no program give her more than she has."""
    person = machine.person(CLARA)
    uv = shutil.which("uv", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])))
    if uv is None:
        pytest.skip("uv lies neither beside this Python nor on the PATH: the extra `env` brings it")
    tools = os.path.join(person.root, "tools")
    os.mkdir(tools, 0o755)
    shutil.copy(uv, tools)
    person.environ["PATH"] = tools + os.pathsep + person.environ["PATH"]
    person.prefix = ("setpriv", "--no-new-privs", "--inh-caps=-all")
    yield person
    person.close()


def processes_of(uid: int) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == uid:
                found.append(Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_she_builds_and_runs_without_root_and_nothing_goes_on_running(clara: Person) -> None:
    links = Links(Path(clara.root, "wheels"))
    links.wheel("demo", "1.0")
    os.chmod(clara.root, 0o755)
    lines = "".join("  - '%s'\n" % line for line in (*links.lines, "demo"))
    clara.write("who.py", WHO + "\nimport demo; print(demo.__version__)\n")
    clara.write("job.yml", "command: python who.py\ncode: .\nenvironment:\n  name: mine\n  pip:\n" + lines)
    result = clara("run", "job.yml", "-w", "2x2", "--fold", "off", timeout=120)
    assert result.code == 0, result
    said = sorted(line.partition(": ")[2] for line in result.lines)
    assert said == [*["1.0"] * 4, *["%d %s" % (CLARA, "0" * 16)] * 4]
    prefix = clara.json("env", "list")[0]["prefix"]
    assert prefix.startswith(clara.home) and os.stat(prefix).st_uid == CLARA
    assert wait_for(lambda: not processes_of(CLARA)), "no daemon is left"
