"""Downloads of models and data sets from the hubs of Hugging Face and torch."""

from __future__ import annotations

import ast

from worldsize.wings.checks.script.downloads.download import Download, DownloadCall
from worldsize.wings.checks.script.reading.calls import argument

HUGGING_FACE = "huggingface.co:443"
_TORCH_FILES = "download.pytorch.org:443"
_LOCAL_BUILDERS = frozenset(("csv", "json", "parquet", "text", "arrow", "imagefolder", "audiofolder", "webdataset"))
_NAMES = ("pretrained_model_name_or_path", "repo_id", "path", "model_id")


def hub_download(call: DownloadCall) -> Download | None:
    """Return the Download that a call in a script, such as `from_pretrained` or `load_dataset`, makes from the hub of
    Hugging Face; None if the call downloads nothing, or if it names a local path."""
    if call.is_own() or call.value("local_files_only") is True:
        return None
    if call.last == "from_pretrained" and isinstance(call.node.func, ast.Attribute):
        return _of_hub(call, call.first(*_NAMES), "")
    if call.last in ("snapshot_download", "hf_hub_download") and not call.is_in_package("modelscope"):
        prefix = "datasets/" if call.value("repo_type") == "dataset" else ""
        return _of_hub(call, call.first("repo_id"), prefix)
    if call.last in ("load_dataset", "load_dataset_builder") and call.is_in_package("datasets"):
        return _data_set(call)
    if call.name == "transformers.pipeline":
        return _pipeline(call)
    return None


def _of_hub(call: DownloadCall, node: ast.expr | None, prefix: str) -> Download | None:
    if node is None:
        return None
    name = call.text_of(node)
    if call.is_local(name) if name else call.may_be_path(node):
        return None
    what = "{}({})".format(call.last, repr(name) if name else "…")
    return Download(what, "huggingface", prefix + name if name else "", HUGGING_FACE if name else "", bool(name))


def _data_set(call: DownloadCall) -> Download | None:
    node = call.first("path")
    if node is not None and call.text_of(node) in _LOCAL_BUILDERS:
        return None
    return _of_hub(call, node, "datasets/")


def _pipeline(call: DownloadCall) -> Download | None:
    """Return the Download of a call of `transformers.pipeline`; None if its model is local, or not a known text.
    Without a model, it loads the task's default model from the hub. A model that is an object is already loaded."""
    node = argument(call.node, "model", 1)
    if node is not None:
        return _of_hub(call, node, "") if call.text_of(node) else None
    return Download("pipeline(…)", "huggingface", "", HUGGING_FACE)


def torch_hub_download(call: DownloadCall) -> Download | None:
    """Return the Download of a call in a script that fetches a repository, checkpoint or weights, which torch stores in
    TORCH_HOME; None if the call fetches none."""
    if call.name in ("torch.hub.load", "torch.hub.list", "torch.hub.help"):
        return _repository(call)
    if call.last in ("load_state_dict_from_url", "download_url_to_file") and not call.is_own():
        return _checkpoint(call)
    if call.is_in_package("torchvision", "timm") and _has_weights(call):
        host = _TORCH_FILES if call.is_in_package("torchvision") else ""
        return Download(f"{call.last}(…) with weights", "torch_hub", "", host)
    return None


def _repository(call: DownloadCall) -> Download | None:
    node = call.first("repo_or_dir", "github")
    source = argument(call.node, "source")
    if node is None or (source is not None and call.value("source") != "github"):
        return None
    name = call.text_of(node)
    if call.is_local(name) if name else call.may_be_path(node):
        return None
    what = "{}({})".format(call.name, repr(name) if name else "…")
    return Download(what, "torch_hub", name, "github.com:443" if name else "", bool(name))


def _checkpoint(call: DownloadCall) -> Download | None:
    node = call.first("url")
    if node is None:
        return None
    url = call.text_of(node)
    if url and not url.startswith(("https://", "http://")):
        return None
    return Download(f"{call.last}(…)", "torch_hub", url, "", bool(url))


def _has_weights(call: DownloadCall) -> bool:
    if call.has("pretrained_cfg") or call.has("pretrained_cfg_overlay"):
        return False
    weights = argument(call.node, "weights")
    return call.value("pretrained") is True or (weights is not None and bool(call.text_of(weights)))
