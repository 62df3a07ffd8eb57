"""Where a key of a job was said, for messages."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.plan.values import NamedTuple


class Places(NamedTuple):
    """`lines` of a job file by YAML path, and the options of the command line that set a path."""

    source: str = ""
    lines: Mapping[str, int] = {}
    options: Mapping[str, str] = {}

    def at(self, key: str) -> str:
        """`--set inputs.lr`, else `job.yml:7: inputs.lr`, else the key; a parent's place stands in for its children."""
        path = key
        while path:
            if path in self.options:
                return self.options[path]
            if self.lines.get(path):
                return "%s:%d: %s" % (self.source, self.lines[path], key)
            path = path.rpartition(".")[0]
        return key

    def says(self, key: str) -> bool:
        """Whether the job file or an option of the command line sets this very key."""
        return key in self.options or key in self.lines
