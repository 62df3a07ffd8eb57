"""The files of a training before and after its conversion, as a diff or written to disk."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import libcst

from worldsize.errors import UsageError
from worldsize.trust.documents import write_document
from worldsize.wings.convert.helpers import helpers_for
from worldsize.wings.convert.project_files import read_training
from worldsize.wings.convert.rewrite import Remark, convert_files


class ConvertedFiles(NamedTuple):
    """The result of a conversion. `before` contains the texts of all files by their paths, "" for a new one. `after`
    contains the texts of the files after the conversion. `script` and `helpers` are the paths of the script and of the
    module of helpers. `errors` are the reasons why the result would not be right, and `remarks` name what the user must
    do."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    script: str
    helpers: str
    errors: Sequence[Remark]
    remarks: Sequence[Remark]

    def diff(self) -> str:
        found: list[str] = []
        for path, after in self.after.items():
            before = self.before[path]
            lines = difflib.unified_diff(_lines(before), _lines(after), path if before else os.devnull, path)
            found += [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]
        return "".join(found)

    def write(self) -> None:
        """Write the converted files that differ from the originals, the helpers first, because the others import them.
        Raise UsageError if one cannot be written; the files written before it are then restored."""
        written: list[str] = []
        for path, text in sorted(self.after.items(), key=lambda item: item[0] != self.helpers):
            if text != self.before[path]:
                try:
                    write_document(path, _encoded(text))
                except OSError as error:
                    self._take_back(written)
                    raise UsageError(f"cannot be written: {error.strerror}", path) from None
                written.append(path)

    def _take_back(self, paths: Sequence[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                if path == self.helpers and not self.before[path]:
                    os.unlink(path)
                else:
                    write_document(path, _encoded(self.before[path]))


def convert_training(scripts: Sequence[str]) -> ConvertedFiles:
    """Convert a training: the `scripts` and the modules in their directories that they import. The first script is the
    one that is started. Return the ConvertedFiles, which are not written. Raise UsageError if a file cannot be read or
    is not Python, or if the script distributes itself."""
    sources = read_training(scripts)
    for path, text in sources.items():
        try:
            libcst.parse_module(text)
        except libcst.ParserSyntaxError as error:
            raise UsageError(f"not Python: {error.message}", f"{path}:{error.raw_line}") from None
    script = next(iter(sources))
    helpers = helpers_for(os.path.dirname(script), sources)
    conversion = convert_files(sources, helpers.module)
    if conversion.reason is not None:
        raise UsageError(f"nothing to convert: {conversion.reason}", script)
    after = {} if conversion.errors else {**conversion.texts, helpers.path: helpers.text}
    before = {**sources, helpers.path: helpers.before}
    return ConvertedFiles(before, after, script, helpers.path, conversion.errors, conversion.remarks)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _lines(text: str) -> list[str]:
    """Split a text into lines as patch counts them. `str.splitlines` also ends lines at form feeds and other
    characters."""
    return io.StringIO(text, newline="\n").readlines()
