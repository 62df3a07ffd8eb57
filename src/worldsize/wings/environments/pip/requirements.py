"""The inputs that requirements and projects take from this machine (files, source trees, variables) and from git."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from glob import glob
from urllib.parse import unquote

from worldsize.common.atomic_files import read_file
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.requirement import split_requirement
from worldsize.trust.owners import is_believed
from worldsize.trust.secrets import mask_text
from worldsize.wings.environments.inspect.installed import normalized_name
from worldsize.wings.environments.pip.requirement_lines import list_lines, parse_include

TYPE_CHECKING = False
if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SOURCE = re.compile(r'^source = \{ (?:editable|directory|path) = "([^"]+)"', re.MULTILINE)
_FILE_ADDRESS = re.compile(r"\bfile:(?://(?:localhost)?)?(/[^\s\"'#;,\]]+)", re.IGNORECASE)
_LIST_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.(?:txt|in)\b")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(/[^#?]*)", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_PLAIN_LISTS = (".txt", ".in")
_OTHER_LISTS = (".toml", ".lock", ".yml", ".yaml", ".json", ".cfg")


def local_path(line: str) -> str | None:
    """Return the path in a requirements line that names a file or a directory on this machine. None for any other line.
    Raise UsageError for a path that cannot be distinguished from an address, or that pip and uv interpret differently.
    """
    known = {name: value for name, value in os.environ.items() if name != "PROJECT_ROOT"}  # uv sets its own value
    parts = split_requirement(with_variables(line, known))
    path, shown = parts.path, mask_text(line.strip())
    if path[:5].lower() == "file:":
        found = _FILE.match(path)
        if found is None:
            raise UsageError(f"a file URL in a form that is not supported here: {shown}", None, "file:///PATH")
        return unquote(found[1])
    if not path or parts.is_address:
        return None
    if not path.startswith("/") or "#" in path:
        hint = "write the absolute path, without anything after it"
        raise UsageError(f"a path in a form that is not supported here: {shown}", None, hint)
    if parts.after.startswith(";"):
        hint = "with a space before the semicolon"
        raise UsageError(f"a path that pip and uv end at different places: {shown}", None, hint)
    return path


def referenced_variables(lines: Iterable[str]) -> set[str]:
    """Return the names of the environment variables, `${NAME}`, that requirements lines, the files that they include,
    and projects refer to. A line may be the name of a file. Files that cannot be read are skipped, since their
    installation reports that."""
    found: set[str] = set()
    for line in lines:
        included = "-r " + line if line.endswith(_PLAIN_LISTS) and not line.startswith("-") else line
        try:
            for text in list_lines([included]):
                found.update(_VARIABLE.findall(text))
                if text.endswith(_OTHER_LISTS):
                    include = parse_include(text)
                    found.update(_VARIABLE.findall(text_of(include[1] if include else text)))
        except UsageError:
            continue
    return found


def with_variables(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with each `${NAME}` replaced by the value of that variable in `environ`, as pip and uv do. Names
    without a value stay."""
    return _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], text)


def local_directories(lines: Iterable[str]) -> list[str]:
    """Return the directories of source trees that requirements lines name, including projects, and those of projects
    and files that the lines include. Raise UsageError or OSError."""
    found: list[str] = []
    for line in list_lines(lines):
        include, path = parse_include(line), local_path(line)
        if include and os.path.basename(include[1]) == "pyproject.toml":
            directory = os.path.dirname(include[1])
            found += [directory, *local_sources(directory)]
        elif path:
            found.append(path)
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def local_sources(directory: str) -> list[str]:
    """Return the paths of files and directories that the project in `directory` takes packages from, other than the
    project itself, according to its uv.lock, or else to its pyproject.toml. Raise OSError."""
    lock = os.path.join(directory, "uv.lock")
    if os.path.exists(lock):
        named = _SOURCE.findall(read_file(lock).decode("utf-8", "replace"))
    else:
        named = _source_paths(os.path.join(directory, "pyproject.toml"))
    return sorted({os.path.abspath(os.path.join(directory, each)) for each in named} - {directory})


def _source_paths(path: str) -> list[str]:
    """Return the paths in the table [tool.uv.sources] of the pyproject.toml `path`. If the table names a member of the
    workspace, include the paths of all members."""
    said = _table(_read_toml(path), "tool", "uv", "sources").values()
    rows = [row for each in said for row in (each if isinstance(each, list) else [each]) if isinstance(row, dict)]
    members = workspace_directories(os.path.dirname(path)) if any(row.get("workspace") is True for row in rows) else []
    return [*(row["path"] for row in rows if isinstance(row.get("path"), str)), *members]


def reachable_trees(directories: Iterable[str], workspaces: bool = True) -> list[str]:
    """Return the source trees `directories`, and all trees that they take packages from: by [tool.uv.sources], by a
    file:// address in a file that describes them, or as members of a uv workspace. If `workspaces` is false, workspaces
    in directories above them are ignored."""
    found: dict[str, None] = {}
    left = [os.path.abspath(each) for each in directories][::-1]
    while left:
        directory = left.pop()
        if directory in found or not os.path.isdir(directory):
            continue
        found[directory] = None
        named = [
            *_source_paths(os.path.join(directory, "pyproject.toml")),
            *(workspace_directories(directory) if workspaces else []),
        ]
        for path in description_files(directory):
            known = {**os.environ, "PROJECT_ROOT": directory}
            text = with_variables(text_of(path), known)
            named += [unquote(each) for each in _FILE_ADDRESS.findall(text)]
        left += [os.path.abspath(os.path.join(directory, each)) for each in named]
    return list(found)


def workspace_directories(directory: str) -> list[str]:
    """Return the uv workspace that the source tree `directory` may belong to, the nearest one in the directories above:
    its root, whose sources apply to all members, and the members. uv decides whether the tree is a member. Empty if
    there is no workspace, or if another user owns it."""
    for at in directories_from(os.path.abspath(directory)):
        said = uv_table(at).get("workspace")
        if isinstance(said, dict):
            if not is_believed(os.stat(os.path.join(at, "pyproject.toml")).st_uid):
                return []
            members = [glob(os.path.join(at, each), recursive=True) for each in _texts(said.get("members"))]
            return [at, *(os.path.normpath(each) for found in members for each in found if os.path.isdir(each))]
    return []


def directories_from(path: str) -> Iterator[str]:
    """Yield the directory `path`, which is absolute, and all directories above it, the nearest first."""
    yield path
    if path != os.path.dirname(path):
        yield from directories_from(os.path.dirname(path))


def description_files(directory: str) -> list[str]:
    """Return the paths of the files in the source tree `directory` that describe its requirements: its pyproject.toml,
    setup.cfg and setup.py, and the requirements lists that these name. Missing files are left out."""
    tool = _table(_read_toml(os.path.join(directory, "pyproject.toml")), "tool")
    dynamic = _table(tool, "setuptools", "dynamic")
    rows = [_table(dynamic, "dependencies"), *_table(dynamic, "optional-dependencies").values()]
    named = [each for row in rows if isinstance(row, dict) for each in _texts(row.get("file"))]
    hatch = _table(tool, "hatch", "metadata", "hooks", "requirements_txt")
    named += [*_texts(hatch.get("files")), *_texts(hatch.get("filename"))]
    names = ("pyproject.toml", "setup.cfg", "setup.py")
    named += _lists_of_setup_cfg(text_of(os.path.join(directory, "setup.cfg")))
    for name in _LIST_NAME.findall(text_of(os.path.join(directory, "setup.py"))):
        named += [name, *glob(os.path.join("*", name), root_dir=directory)]
    paths = [os.path.normpath(os.path.join(directory, name)) for name in (*names, *named)]
    return [path for path in dict.fromkeys(paths) if os.path.isfile(path)]


def _lists_of_setup_cfg(text: str) -> list[str]:
    """Return the names of the requirements files in the text of a setup.cfg: a.txt and b for `install_requires = file:
    a.txt, b`."""
    found = []
    for section in re.split(r"^\[", text, flags=re.MULTILINE):
        if section.startswith("options"):
            for names in re.findall(r"\bfile:((?:.*(?:\n[ \t].*)*))", section):
                found += [name.strip() for name in re.split(r"[,\n]", names) if name.strip()]
    return found


def text_of(path: str) -> str:
    """Return the text of the file `path`. "" if it cannot be read, since the installation of the source tree reports
    that."""
    try:
        return read_file(path).decode("utf-8", "replace")
    except OSError:
        return ""


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def git_requirements(path: str) -> list[str]:
    """Return the requirements of the pyproject.toml `path` that come from git repositories, as lines of a requirements
    file. They are those with an address, and those for which [tool.uv.sources] names only git repositories."""
    from packaging.requirements import InvalidRequirement, Requirement

    found = _read_toml(path)
    sources = {normalized_name(name): said for name, said in _table(found, "tool", "uv", "sources").items()}
    lines = []
    for line in _texts(_table(found, "project").get("dependencies")):
        try:
            asked = Requirement(line)
        except (InvalidRequirement, RecursionError):
            continue  # uv reports it
        if asked.url:
            lines.append(line)
            continue
        said = sources.get(normalized_name(asked.name))
        rows: list[Any] = said if isinstance(said, list) else [said]
        if all(isinstance(row, dict) and isinstance(row.get("git"), str) for row in rows):
            lines += [_git_requirement(asked, row) for row in rows]
    return [line for line in lines if "git+" in line or ".git" in line]


def _git_requirement(asked: Requirement, source: dict[str, Any]) -> str:
    revision = source.get("rev") or source.get("tag") or source.get("branch")
    within = source.get("subdirectory")
    markers = [str(each).strip() for each in (asked.marker, source.get("marker")) if each]
    return "{}{} @ git+{}{}{}{}".format(
        asked.name,
        f"[{','.join(sorted(asked.extras))}]" if asked.extras else "",
        source["git"].removeprefix("git+"),
        f"@{revision}" if revision else "",
        f"#subdirectory={within}" if within else "",
        " ; " + " and ".join(f"({each})" for each in markers) if markers else "",
    )


def uv_table(directory: str) -> dict[str, Any]:
    """Return the table [tool.uv] of the pyproject.toml in `directory`. Empty if there is none."""
    return _table(_read_toml(os.path.join(directory, "pyproject.toml")), "tool", "uv")


def project_name(directory: str) -> str | None:
    """Return the name of the project in `directory`, according to its pyproject.toml. None if that contains none."""
    name = _table(_read_toml(os.path.join(directory, "pyproject.toml")), "project").get("name")
    return name if isinstance(name, str) else None


def _table(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the nested table of a parsed TOML file that the keys `names` lead to, one after the other. Empty if it is
    missing, or if the value is not a table."""
    for name in names:
        inner = found.get(name)
        found = inner if isinstance(inner, dict) else {}
    return found


def toml_text_lines(path: str) -> list[str]:
    """Return each string value of the TOML file `path` as a line `key = "text"`, in one form for all spellings."""

    def texts(value: Any, key: str) -> list[str]:
        if isinstance(value, dict):
            return [line for name, item in value.items() for line in texts(item, name)]
        if isinstance(value, list):
            return [line for item in value for line in texts(item, key)]
        return [f'{key} = "{value}"'] if isinstance(value, str) else []

    return texts(_read_toml(path), "")


def _read_toml(path: str) -> dict[str, Any]:
    """Return the contents of the TOML file `path` as nested mappings. Empty if the file is missing or is not TOML,
    which uv reports."""
    try:
        return parse_toml(read_file(path).decode("utf-8"))
    except (OSError, ValueError):
        return {}


def parse_toml(text: str) -> dict[str, Any]:
    """Return the contents of a text in TOML format as nested mappings. Raise ValueError if it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found: dict[str, Any] = tomllib.loads(text)
    return found


def locked_packages(text: str) -> list[dict[str, Any]]:
    """Return the package tables in the text of a pylock.toml (PEP 751)."""
    found: list[dict[str, Any]] = parse_toml(text).get("packages", [])
    return found
