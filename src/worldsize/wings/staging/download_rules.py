"""Which calls, and which words of a shell, download: known names, as far as they stand there in plain text. Pure."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_LOCAL_BUILDERS = frozenset(("csv", "json", "parquet", "text", "arrow", "imagefolder", "audiofolder", "webdataset"))


class Download(NamedTuple):
    """One place that downloads.

    file   relative to the code, or "" for the command
    what   as people would say it: `MNIST(download=True)`
    kind   "huggingface", "torch_hub", "pip", "data" or "service": which part of `stage:` is the mend
    name   of what is downloaded, where it stands there; else ""
    """

    file: str
    line: int
    what: str
    kind: str
    name: str = ""


_SHELL_PATTERNS = (
    (r"\b(?P<what>(?:uv\s+)?pip3?\s+(?:install|download))\b(?!.*--no-index)", "pip"),
    (r"\b(?P<what>(?:conda|mamba|micromamba)\s+(?:install|create|update))\b", "service"),
    (r"\b(?P<what>(?:huggingface-cli|hf)\s+download)\s+(?P<name>[\w./-]+)", "huggingface"),
    (r"\b(?P<what>wget|curl)\s+\S", "data"),
    (r"\b(?P<what>git\s+(?:clone|pull|fetch))\b", "data"),
    (r"\b(?P<what>apt(?:-get)?\s+install)\b", "service"),
)


def downloads_in_shell(text: str) -> Iterator[Download]:
    for pattern, kind in _SHELL_PATTERNS:
        found = re.search(pattern, text)
        if found:
            yield Download("", 0, " ".join(found["what"].split()), kind, found.groupdict().get("name") or "")


class CallSite(NamedTuple):
    node: ast.Call
    name: str
    places: tuple[str, str]

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    def keyword(self, name: str) -> object:
        """A literal, None where it is not given or no literal."""
        for each in self.node.keywords:
            if each.arg == name:
                return each.value.value if isinstance(each.value, ast.Constant) else None
        return None

    def first(self, *names: str) -> str | None:
        """The first argument, or one of the keywords, where it is a literal text; "" where it is another text."""
        values = self.node.args[:1] or [each.value for each in self.node.keywords if each.arg in names][:1]
        if not values:
            return None
        value = values[0]
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""

    def is_local_path(self, name: str) -> bool:
        """Whether a text is a path rather than a name of the hub's."""
        return name.startswith((".", "/", "~")) or any(os.path.exists(os.path.join(each, name)) for each in self.places)

    def is_in_package(self, *packages: str) -> bool:
        return self.name.partition(".")[0] in packages


def _data_set_download(call: CallSite) -> Download | None:
    if call.keyword("download") is True:
        return Download("", 0, f"{call.last}(download=True)", "data")
    return None


def _hub_download(call: CallSite) -> Download | None:
    if call.last == "from_pretrained" and call.name != "from_pretrained":
        name = call.first("pretrained_model_name_or_path", "repo_id")
    elif call.last in ("snapshot_download", "hf_hub_download"):
        name = call.first("repo_id")
    elif call.last in ("load_dataset", "load_dataset_builder") and call.is_in_package("datasets", "load_dataset"):
        name = call.first("path")
        if name in _LOCAL_BUILDERS:
            return None
        name = "datasets/" + name if name else name
    elif call.name == "transformers.pipeline":
        name = str(call.keyword("model") or "")
    else:
        return None
    bare = (name or "").removeprefix("datasets/")
    if name is None or call.keyword("local_files_only") is True or (bare and call.is_local_path(bare)):
        return None
    return Download("", 0, "{}({})".format(call.last, repr(bare) if bare else "…"), "huggingface", name)


def _torch_hub_download(call: CallSite) -> Download | None:
    if call.name in ("torch.hub.load", "torch.hub.list", "torch.hub.help"):
        if call.keyword("source") == "local":
            return None
        name = call.first("repo_or_dir", "github") or ""
        return Download("", 0, "{}({})".format(call.name, repr(name) if name else "…"), "torch_hub", name)
    if call.last in ("load_state_dict_from_url", "download_url_to_file"):
        url = call.first("url") or ""
        return Download("", 0, f"{call.last}(…)", "torch_hub", url)
    if call.is_in_package("torchvision", "timm"):
        weights = call.keyword("pretrained") is True or isinstance(call.keyword("weights"), str)
        if weights:
            return Download("", 0, f"{call.last}(…) with weights", "torch_hub")
    return None


_WEB_FUNCTIONS = frozenset(
    (
        *("urllib.request.urlretrieve", "urllib.request.urlopen", "requests.get", "requests.post", "requests.request"),
        *("httpx.get", "httpx.stream", "wget.download", "gdown.download", "gdown.cached_download"),
        *("nltk.download", "spacy.cli.download", "tensorflow_datasets.load", "tfds.load", "kagglehub.dataset_download"),
        *("tensorflow.keras.utils.get_file", "keras.utils.get_file", "pooch.retrieve", "openml.datasets.get_dataset"),
        *("gensim.downloader.load", "ultralytics.utils.downloads.download"),
    )
)


def _web_download(call: CallSite) -> Download | None:
    if call.name in _WEB_FUNCTIONS:
        return Download("", 0, f"{call.name}(…)", "data")
    if call.last == "load_data" and ".datasets." in call.name and call.is_in_package("keras", "tensorflow"):
        return Download("", 0, f"{'.'.join(call.name.split('.')[-2:])}()", "data")
    if call.name.startswith("sklearn.datasets.fetch_"):
        return Download("", 0, f"{call.last}()", "data")
    if call.name == "wandb.init" and call.keyword("mode") not in ("offline", "disabled"):
        return Download("", 0, "wandb.init(…)", "service", "wandb")
    return None


def _shell_download(call: CallSite) -> Download | None:
    if not (
        call.is_in_package("os", "subprocess")
        and call.last in ("system", "popen", "run", "call", "check_call", "check_output", "Popen")
    ):
        return None
    for text in _command_texts(call.node.args[:1]):
        for found in downloads_in_shell(text):
            return found
    return None


def _command_texts(values: Iterable[ast.expr]) -> Iterator[str]:
    """The text of a command, or of its words."""
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, (ast.List, ast.Tuple)):
            yield " ".join(
                each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else "…"
                for each in value.elts
            )


RULES: tuple[Callable[[CallSite], Download | None], ...] = (
    _hub_download,
    _torch_hub_download,
    _web_download,
    _shell_download,
    _data_set_download,
)
