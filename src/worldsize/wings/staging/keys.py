"""What `stage:` of a job may say, and how it is read; loaded only where somebody says it."""

from __future__ import annotations

from typing import Any

from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.paths import absolute_path, is_malformed
from worldsize.jobspec.reading.environment import ENVIRONMENT_READERS
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import mapping_of, read_keys
from worldsize.wings.staging.spec import staging_spec_of

KEYS: Keys = {
    "pip": Key("requirements", "Requirements, or a file of them, that ranks may `pip install`: wheels.", blank=False),
    "uv": Key("requirements", "The same for `uv pip install`; the wheels serve both.", blank=False),
    "huggingface": Key("texts", "Repositories of the Hugging Face hub: NAME, NAME@REVISION, datasets/NAME; then "
                       "patterns of the files wanted.", blank=False),
    "torch_hub": Key("texts", "Repositories of torch.hub, OWNER/NAME:REF, and URLs of checkpoints.", blank=False),
    "data": Key("text_map", "Paths below $WORLDSIZE_DATA to URIs; #sha256=… at a URI's end is checked.", blank=False),
}  # fmt: skip


def read(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any] | None:
    count = len(report.problems)
    values = read_keys(mapping_of(node, path, report), path, KEYS, report, ENVIRONMENT_READERS)
    if len(report.problems) > count:
        return None
    if "data" in values:
        for name in filter(lambda name: is_malformed(values["data"][name]), values["data"]):
            report.add(node, f"{path}.data.{name}", "is no address that can be read")
            return None
        values["data"] = {name: absolute_path(uri, report.base) for name, uri in values["data"].items()}
    try:
        staging_spec_of(values)
    except ValueError as error:
        report.add(node, path, str(error))
        return None
    return values
