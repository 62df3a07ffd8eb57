"""Find what a job's files would download when they run, as far as reading them tells. Nothing is executed.

Only plain cases are found: a call whose name, through the file's imports, is that of a known downloader. A name that is
computed, or a download inside a library, is not.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_MOST_FILES = 300
_MOST_BYTES = 2 << 20
_LOCAL_BUILDERS = frozenset(("csv", "json", "parquet", "text", "arrow", "imagefolder", "audiofolder", "webdataset"))


class Download(NamedTuple):
    """One place that downloads.

    file   relative to the code, or "" for the command
    what   the call or command, for people: `MNIST(download=True)`
    kind   "huggingface", "torch_hub", "pip", "data" or "service": which part of `stage:` is the mend
    name   of what is downloaded, where the call has it; else ""
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
        """The value of a keyword argument; None where that is not given, or no literal."""
        for each in self.node.keywords:
            if each.arg == name:
                return each.value.value if isinstance(each.value, ast.Constant) else None
        return None

    def first(self, *names: str) -> str | None:
        """The first argument, or one of the keywords, where it is a literal text; "" where it is anything else; None
        where there is none."""
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
    """Yield the texts of commands that are given as a text or as words."""
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


def downloads_of(code: str, text: str) -> list[Download]:
    """The downloads in the command's `text`, in the Python files that it names in the directory `code`, and in the
    files there that these import."""
    found = list(downloads_in_shell(text))
    for file, tree in _reachable_files(code, text):
        found += _downloads_in_file(code, file, tree)
    return found


def _reachable_files(code: str, text: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the Python files that the command names, as a script or a module, and those of the code that they import,
    in the order in which they are found."""
    seen: set[str] = set()
    modules = [name.replace(".", os.sep) for name in re.findall(r"\s-m\s+([\w.]+)", text)]
    named = [*re.findall(r"[\w./-]+\.py\b", text), *(name + ".py" for name in modules)]
    front = [os.path.normpath(name) for name in (*named, *(os.path.join(name, "__main__.py") for name in modules))]
    while front and len(seen) < _MOST_FILES:
        file = front.pop(0)
        if file in seen or not os.path.isfile(os.path.join(code, file)):
            continue
        seen.add(file)
        tree = _parse_file(code, file)
        if tree is not None:
            yield file, tree
            front += _imported_files(tree, code, os.path.dirname(file))


def _parse_file(code: str, file: str) -> ast.Module | None:
    """A file's syntax tree; None for one that is too large, or cannot be read or parsed: it is not looked at."""
    path = os.path.join(code, file)
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            return None
        with open(path, "rb") as source:
            return ast.parse(source.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_files(tree: ast.Module, code: str, beside: str) -> Iterator[str]:
    """Yield the files of the code that a module may import, from its own directory, as scripts do, or from a
    package."""
    for node in ast.walk(tree):
        names: list[str] = []
        places = [beside, ""]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                places = [os.path.normpath(os.path.join(beside, *[".."] * (node.level - 1)))]
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
        for name in filter(None, names):
            path = name.replace(".", os.sep)
            for candidate in (path + ".py", os.path.join(path, "__init__.py")):
                for place in places:
                    if os.path.isfile(os.path.join(code, place, candidate)):
                        yield os.path.normpath(os.path.join(place, candidate))


def _downloads_in_file(code: str, file: str, tree: ast.Module) -> Iterator[Download]:
    aliases = _aliases(tree)
    beside = os.path.join(code, os.path.dirname(file))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = CallSite(node, _dotted_name(node.func, aliases), (beside, code))
            for rule in RULES:
                found = rule(call)
                if found is not None:
                    yield found._replace(file=file, line=node.lineno)
                    break


def _aliases(tree: ast.Module) -> dict[str, str]:
    """The full names of what a file imports, by the names that it has in the file."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _dotted_name(node: ast.expr, aliases: dict[str, str]) -> str:
    """The full name of what is called, such as `torchvision.datasets.MNIST`, however it was imported; "?.x" for a
    method of something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    root = aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
    return ".".join([root, *reversed(parts)])
