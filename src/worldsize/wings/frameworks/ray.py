"""The distribution `type: ray`: a Ray cluster of the run's nodes, and the command once, on the first of them."""

from __future__ import annotations

import shlex

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.wings.frameworks.tensorflow import role_layout

_OWN_OPTIONS = {"--head": "", "--block": "", "--address": "", "--port": "port", "--temp-dir": ""}
"""Options of `ray start` that only worldsize may set, and the job's key for such an option; "" if there is none."""


@ignore_unknown_keywords
class RayDistribution(NamedTuple):
    """A Ray cluster: Ray's head on the first node, its workers on the others. The command runs once, on the head's
    node, after all nodes have joined. `ray.init()` in the command joins the cluster."""

    port: int | None = None
    address: str | None = None
    include_dashboard: bool | None = None
    dashboard_port: int | None = None
    head_node_additional_args: str | None = None
    worker_node_additional_args: str | None = None
    dashboard_host: str | None = None
    type: str = "ray"

    @staticmethod
    def keys() -> Keys:
        return {
            "port": Key("int", "The head's port (default: a free one).", minimum=1, maximum=65535),
            "address": Key("text", "auto: the run's own cluster. It never joins another one."),
            "include_dashboard": Key("flag", "Whether to start the dashboard (default: false)."),
            "dashboard_host": Key("text", "Where the dashboard listens; by default 127.0.0.1."),
            "dashboard_port": Key("int", "The dashboard's port; by default a free one.", minimum=1, maximum=65535),
            "head_node_additional_args": Key("text", "Further options of `ray start` on the first node."),
            "worker_node_additional_args": Key("text", "Further options of `ray start` on the other nodes."),
        }

    def world_size(self, instances: int) -> int:
        return instances

    def arrange(self, instances: int) -> Arrangement:
        """Return the arrangement of a Ray cluster's ranks: one for each of the `instances` nodes, the first of them the
        head. The head's rank executes the command, and the run ends with it. Raise PlanError for keys that worldsize
        cannot follow."""
        if self.address not in (None, "", "auto"):
            what = f"{self.address!r:.60}: the run starts its own Ray cluster, and does not join another"
            raise PlanError(what, "distribution.address", "leave it out")
        nodes = role_layout(instances, ("head", *("worker",) * (instances - 1)))
        leaders = (0,) if instances > 1 else ()
        return Arrangement(
            nodes, "ray", self._options(), ports="node", leaders=leaders, default_conventions=("azureml",)
        )

    def _options(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "head_args": _words(self.head_node_additional_args, "head_node_additional_args"),
            "worker_args": _words(self.worker_node_additional_args, "worker_node_additional_args"),
            "port": self.port,
        }
        if self.include_dashboard:
            said["dashboard_host"] = self.dashboard_host or "127.0.0.1"
            said["dashboard_port"] = self.dashboard_port
        return {name: value for name, value in said.items() if value}


def _words(text: str | None, key: str) -> list[str]:
    """Return the words of the further options of `ray start` in `text`, the value of the job's `key`. Raise PlanError
    for a text that cannot be split into words, and for options that only worldsize may set."""
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        what = f"{text!r:.60} cannot be split into words: {error}"
        raise PlanError(what, f"distribution.{key}", "correct the quotes") from None
    for word in words:
        name = word.partition("=")[0]
        if name in _OWN_OPTIONS:
            own = _OWN_OPTIONS[name]
            hint = f"set distribution.{own}" if own else "leave it out"
            raise PlanError(f"{name} is set by worldsize itself", f"distribution.{key}", hint)
    return words
