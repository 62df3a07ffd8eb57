"""The examples that come with worldsize: their index, and copies of them.

An installed worldsize has them in its package, as `examples`; in a checkout they are in the folder of that name at its
root. Their index is `README.md` there, with a row for each example; the commands of an example are in its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from worldsize.errors import ConfigError, NotFound
from worldsize.registry import source_file

INDEX = "README.md"
_ROW = re.compile(r"^\| \[([\w-]+)\]\([\w-]+/README\.md\) \| (.+?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_COPIED = ("__pycache__", "data", "outputs")
_CODE_BESIDE = re.compile(rb'\bcode(: |=\\")\.\./([\w-]+)/([\w-]+)')
"""The pattern of a reference to another example's code, in a job file and in a notebook."""

_ENVIRONMENT_OF_CHECKOUT = re.compile(rb"^environment: \.\./\.\./\S+\n", re.MULTILINE)


class Example(NamedTuple):
    """An example, as described in the index.

    needs     packages of the Python that runs it
    time      how long it takes
    commands  one in each line, for the folder that contains `examples`
    """

    name: str
    description: str
    needs: str
    time: str
    commands: str

    def commands_in(self, directory: str) -> str:
        """Return the commands that run the example, for a copy of it in `directory`."""
        return self.commands.replace(f"examples/{self.name}", directory)


def examples_directory() -> str:
    """Return the path of the directory of worldsize's examples. Raise ConfigError if this installation does not contain
    them."""
    beside = (source_file("examples"), source_file("..", "..", "examples"))
    for directory in beside:
        if os.path.isfile(os.path.join(directory, INDEX)):
            return os.path.normpath(directory)
    hint = "they are the folder examples/ of worldsize's source code"
    raise ConfigError("this installation of worldsize does not include the examples", None, hint)


def read_examples(directory: str) -> list[Example]:
    """Return all of worldsize's examples in `directory`, in the order of the index, README.md."""
    return [
        Example(name, description, needs, time, _read_commands(os.path.join(directory, name)))
        for name, description, needs, time in _ROW.findall(_read_page(directory))
    ]


def _read_commands(directory: str) -> str:
    """Return the commands on the page of the example in `directory`; "" if the page has none."""
    found = _COMMANDS.search(_read_page(directory))
    return found[1].rstrip("\n") if found else ""


def _read_page(directory: str) -> str:
    with open(os.path.join(directory, INDEX), encoding="utf-8") as file:
        return file.read()


def find_example(directory: str, name: str) -> Example:
    """Return worldsize's example of that name in `directory`. Raise NotFound, with the nearest name, if there is
    none."""
    from worldsize.jobspec.reading.nearest import did_you_mean

    found = {example.name: example for example in read_examples(directory)}
    if name not in found:
        raise NotFound(f"there is no example {name!r:.60}", None, did_you_mean(name, tuple(found)))
    return found[name]


def files_of(directory: str, name: str) -> dict[str, bytes]:
    """Return the content of the files of the example `name`, by their paths below the example, as they are in a copy.
    Code that its job uses from a neighbouring example is included in the copy. Its page, which is about a checkout, and
    references to an environment of the checkout are left out."""
    files = dict(_read_files(os.path.join(directory, name)))
    files.pop(INDEX, None)
    for path, data in list(files.items()):
        if not path.endswith((".yml", ".ipynb")):
            continue
        code = _CODE_BESIDE.search(data)
        if code is not None:
            beside, folder = os.fsdecode(code[2]), os.fsdecode(code[3])
            shared = _read_files(os.path.join(directory, beside, folder))
            files.update({os.path.join(folder, each): content for each, content in shared})
            data = _CODE_BESIDE.sub(rb"code\1\3", data)
        files[path] = _ENVIRONMENT_OF_CHECKOUT.sub(b"", data)
    return files


def _read_files(root: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of each file below `root`, except data and files that runs leave behind."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in _NOT_COPIED and not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                yield os.path.relpath(path, root), file.read()
