"""The internet hosts that a script asks, by the calls that download."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

from worldsize.wings.checks.script.reading.calls import argument, literal, text
from worldsize.wings.checks.script.reading.program import Program

_HUGGING_FACE = "huggingface.co:443"
_BY_NAME = ("from_pretrained", "load_dataset", "snapshot_download", "hf_hub_download")
_TORCHVISION_SETS = {
    "MNIST": "ossci-datasets.s3.amazonaws.com:443",
    "FashionMNIST": "fashion-mnist.s3-website.eu-central-1.amazonaws.com:80",
    "CIFAR10": "www.cs.toronto.edu:443",
    "CIFAR100": "www.cs.toronto.edu:443",
}
_READERS = ("urlopen", "urlretrieve", "download_url", "load_state_dict_from_url", "download_and_extract_archive")
_OFFLINE = {
    _HUGGING_FACE: ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT"),
    "api.wandb.ai:443": ("WANDB_MODE", "WANDB_BASE_URL", "WANDB_DISABLED"),
}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")


def hosts_of(program: Program) -> list[str]:
    """ "host:port" of each host that the script asks whatever its options say; not of what a variable keeps offline."""
    set_by_script = {str(node.value) for node in program.index.strings}
    known = {*program.request.environ, *set_by_script}
    found = sorted(set(_hosts(program)))
    return [host for host in found if not known & set(_OFFLINE.get(host, ()))]


def _hosts(program: Program) -> Iterator[str]:
    flow, dotted = program.flow, program.index.dotted
    for call in filter(flow.is_always, flow.calls(*_BY_NAME)):
        if _is_hub_name(program, argument(call, "path", 0)) and literal(argument(call, "local_files_only")) is not True:
            yield _HUGGING_FACE
    for call in filter(flow.is_always, flow.calls(*_TORCHVISION_SETS)):
        if literal(argument(call, "download", 4)) is True and dotted(call.func).startswith("torchvision.datasets."):
            yield _TORCHVISION_SETS[program.index.last_name(call.func)]
    for call in filter(flow.is_always, flow.calls("init")):
        mode = argument(call, "mode")
        if dotted(call.func) == "wandb.init" and (mode is None or text(mode) == "online"):
            yield "api.wandb.ai:443"
    for call in filter(flow.is_always, flow.calls(*_READERS)):
        yield from _host_of_url(call)


def _is_hub_name(program: Program, node: ast.expr | None) -> bool:
    """Whether a text is a name on the hub, and no directory of the code."""
    name = text(node)
    if name is None or not _HUB_NAME.match(name) or name in ("csv", "json", "parquet", "text", "imagefolder"):
        return False
    return not os.path.exists(os.path.join(program.request.code_dir, name))


def _host_of_url(call: ast.Call) -> Iterator[str]:
    from urllib.parse import urlsplit  # few scripts need it

    url = text(call.args[0]) if call.args else None
    if url is None or not url.startswith(("https://", "http://")):
        return
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # no URL
        return
    if parts.hostname and "." in parts.hostname:
        yield f"{parts.hostname}:{port}"
