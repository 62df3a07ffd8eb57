"""Downloads of libraries from the web: data sets, files by their URL, and connections to services that they report
to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from worldsize.wings.checks.script.downloads.commands import command_download
from worldsize.wings.checks.script.downloads.download import Download, DownloadCall
from worldsize.wings.checks.script.reading.calls import argument
from worldsize.wings.checks.script.reading.shell_text import ShellCommand, shell_commands

_SETS = {
    "MNIST": "ossci-datasets.s3.amazonaws.com:443",
    "FashionMNIST": "fashion-mnist.s3-website.eu-central-1.amazonaws.com:80",
    "CIFAR10": "www.cs.toronto.edu:443",
    "CIFAR100": "www.cs.toronto.edu:443",
}
"""The hosts of torchvision's data sets, for those whose fifth argument is `download`."""

_BY_ADDRESS = {
    "urllib.request.urlretrieve": "url", "urllib.request.urlopen": "url", "requests.get": "url",
    "requests.post": "url", "httpx.get": "url", "httpx.stream": "", "requests.request": "", "wget.download": "url",
    "gdown.download": "url", "gdown.cached_download": "url", "pooch.retrieve": "url",
    "torchvision.datasets.utils.download_url": "url", "torchvision.datasets.utils.download_and_extract_archive": "url",
    "tensorflow.keras.utils.get_file": "origin", "keras.utils.get_file": "origin",
}  # fmt: skip
"""Functions that fetch the URL in an argument, with the keyword of that argument; "" if it is the second argument."""

_BY_NAME = frozenset((
    "nltk.download", "spacy.cli.download", "tensorflow_datasets.load", "kagglehub.dataset_download",
    "openml.datasets.get_dataset", "gensim.downloader.load", "ultralytics.utils.downloads.download",
))  # fmt: skip
_PORTS = {"https": 443, "http": 80, "ftp": 21}
_NEAR = ("127.", "10.", "192.168.", "169.254.", "0.", "::", "fe80:", "172.16.")
_WANDB = "api.wandb.ai:443"
_SYSTEM = ("system", "popen", "run", "call", "check_call", "check_output", "Popen")


def web_download(call: DownloadCall) -> Download | None:
    """Return the Download of a call in a script that fetches a file by its URL, fetches a data set by its name, or
    connects to Weights & Biases; None if the call does none of that."""
    if call.name in _BY_ADDRESS:
        return _by_address(call, _BY_ADDRESS[call.name])
    if call.name in _BY_NAME:
        kept = call.value("download") is False or call.has("data_dir") or call.has("download_dir_only")
        return None if kept else Download(f"{call.name}(…)", "data")
    if call.last == "load_data" and ".datasets." in call.name and call.is_in_package("keras", "tensorflow"):
        return Download(f"{'.'.join(call.name.split('.')[-2:])}()", "data")
    if call.name.startswith("sklearn.datasets.fetch_"):
        return None if call.value("download_if_missing") is False else Download(f"{call.last}()", "data")
    return _wandb(call) if call.name == "wandb.init" else None


def _wandb(call: DownloadCall) -> Download | None:
    mode = argument(call.node, "mode")
    if mode is not None and call.text_of(mode) not in ("online", "shared"):
        return None
    return Download("wandb.init(…)", "wandb", "wandb", _WANDB)


def _by_address(call: DownloadCall, keyword: str) -> Download | None:
    node = argument(call.node, keyword, 1 if keyword in ("", "origin") else 0)
    if keyword == "" and node is None:
        node = argument(call.node, "url")
    if node is None:
        return None
    url = call.text_of(node)
    if url and not is_far(url):
        return None
    if not url and isinstance(node, ast.JoinedStr):
        return _by_begun_address(call, node)
    return Download(f"{call.name}(…)", "data", "", host_of(url), bool(url))


def _by_begun_address(call: DownloadCall, node: ast.JoinedStr) -> Download | None:
    """Return the Download of a call whose URL is an f-string with the host in its literal beginning; None if the
    beginning does not contain the host."""
    begin = node.values[0].value if node.values and isinstance(node.values[0], ast.Constant) else ""
    host = host_of(begin) if isinstance(begin, str) and begin.count("/") > 2 else ""
    return Download(f"{call.name}(…)", "data", "", host) if host else None


def host_of(url: str) -> str:
    """Return "host:port" of a URL in the internet whose host has a full name; else ""."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):  # not a URL, or one with another scheme
        return ""
    return f"{parts.hostname}:{port}" if parts.hostname and "." in parts.hostname and is_far(url) else ""


def is_far(url: str) -> bool:
    """Return whether a URL is in the internet. It is not if it is a file, this machine, a private address, or a name
    without a dot that has a port or no encryption: the nodes may have those among themselves."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError:  # not a URL
        return False
    if parts.scheme not in _PORTS or not name or name == "localhost" or name.startswith(_NEAR):
        return False
    return not name.endswith((".local", ".lan")) if "." in name else parts.scheme == "https" and port is None


def data_set_download(call: DownloadCall) -> Download | None:
    """Return the Download of a call in a script that creates a data set with `download=True`; None for other calls and
    for classes of the script itself."""
    if call.is_own():
        return None
    host = _SETS.get(call.last, "") if call.name.startswith("torchvision.datasets.") else ""
    if call.value("download", 4 if host else None) is not True:
        return None
    return Download(f"{call.last}(download=True)", "data", "", host)


def shell_download(call: DownloadCall) -> Download | None:
    """Return the Download of the shell command that a call in a script starts, by `os.system` or a function of
    `subprocess`; None if the command downloads nothing, or if the call starts none."""
    if not (call.is_in_package("os", "subprocess") and call.last in _SYSTEM):
        return None
    for command in _commands(call.node.args[:1]):
        found = None if command.doubtful else command_download(command)
        if found is not None:
            return found
    return None


def _commands(values: Iterable[ast.expr]) -> Iterator[ShellCommand]:
    for value in values:
        if isinstance(value, ast.List | ast.Tuple):
            words = tuple(_word(each) for each in value.elts)
            yield from [ShellCommand(words)] if words else []
        else:
            yield from shell_commands(_word(value))


def _word(node: ast.expr) -> str:
    """Return the text of an expression that is a string or an f-string, with "…" in place of the parts that are not
    literals; "…" for any other expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_word(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"
