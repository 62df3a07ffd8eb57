"""Problems and warnings, collected while a job is read and reported all at once."""

from __future__ import annotations

from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import JobError, UsageError
from worldsize.jobspec.reading.tree import YamlNode

MAX_LISTED = 40


class Problem(NamedTuple):
    where: str
    path: str
    what: str
    hint: str | None

    @property
    def line(self) -> str:
        text = f"{self.path}: {self.what}" if self.path else self.what
        return "{}: {}{}".format(self.where, text, "; " + self.hint if self.hint else "")


class Problems:
    """The problems and warnings found while reading. `base` is the directory from which relative paths start."""

    def __init__(self, base: str = "", error: type[UsageError] = JobError) -> None:
        self.base = base
        self.error = error
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def add(self, node: YamlNode, path: str, what: str, hint: str | None = None) -> None:
        self.problems.append(Problem(node.where, printable_text(_path_to_show(node, path)), printable_text(what), hint))

    def warn(self, node: YamlNode, path: str, what: str) -> None:
        self.warnings.append(
            Problem(node.where, printable_text(_path_to_show(node, path)), printable_text(what), None).line
        )

    def check(self) -> None:
        """Raise one error (`self.error`) that names all problems collected so far, at the place of the first one. Do
        nothing if there are none."""
        problems = self.problems
        if not problems:
            return
        first = problems[0]
        if len(problems) == 1:
            what = f"{first.path}: {first.what}" if first.path else first.what
            raise self.error(what, first.where, first.hint)
        lines = [problem.line for problem in problems[:MAX_LISTED]]
        if len(problems) > MAX_LISTED:
            lines.append(f"and {len(problems) - MAX_LISTED} more")
        raise self.error("{} problems\n  {}".format(len(problems), "\n  ".join(lines)), first.where)


def _path_to_show(node: YamlNode, path: str) -> str:
    """Return the key's `path` for a message about `node`; "" if the node's place already ends with the path, as "--set
    inputs.lr" does."""
    return "" if node.where.endswith(" " + path) else path
