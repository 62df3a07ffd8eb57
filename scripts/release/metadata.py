"""What the packages' metadata has beyond pyproject.toml: the addresses of a repository, and README.md as an index
shows it. Pure functions. Standard library only: hatchling loads this file by its path.
"""

from __future__ import annotations

import re

BRANCH = "main"
_ADDRESS = re.compile(r"(?:https://(?:[^/@\s]*@)?|ssh://git@|git@)([A-Za-z0-9.-]+)(?::\d+)?[/:]([\w./-]+?)(?:\.git)?/?")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)\n?")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def repository_address(text: str) -> str:
    """Return the address of the page of a repository, `https://HOST/PATH`, without user and password, for one of the
    forms that git knows (https, ssh); "" for anything else, such as a path."""
    match = _ADDRESS.fullmatch(text.strip())
    return "https://%s/%s" % (match[1], match[2]) if match else ""


def project_urls(address: str, version: str) -> dict[str, str]:
    """Return the links that an index shows beside the description; none without an address."""
    if not address:
        return {}
    tree, blob = "%s/tree/v%s" % (address, version), "%s/blob/v%s" % (address, version)
    return {
        "Homepage": address,
        "Documentation": tree + "/docs",
        "Changelog": blob + "/CHANGELOG.md",
        "Issues": address + "/issues",
        "Source": tree,
        "Security": "%s/blob/%s/SECURITY.md" % (address, BRANCH),
    }


def index_description(text: str, address: str, version: str) -> str:
    """Return README.md for a page of an index: each relative link leads to the repository as it was at this version;
    without an address it is text alone, and pictures are left out, so no link is broken. Comments are left out."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_with_addresses(text[end : fence.start()], address, version), fence[0]]
        end = fence.end()
    return "".join([*parts, _with_addresses(text[end:], address, version)])


def _with_addresses(text: str, address: str, version: str) -> str:
    def picture(match: re.Match[str]) -> str:
        if not _is_relative(match[2]):
            return match[0]
        place = "%s/raw/v%s/%s" % (address, version, match[2])
        return match[0].replace("(%s)" % match[2], "(%s)" % place) if address else ""

    def link(match: re.Match[str]) -> str:
        if not _is_relative(match[2]):
            return match[0]
        target = "README.md" + match[2] if match[2].startswith("#") else match[2]  # an index gives headings no names
        return "[%s](%s/blob/v%s/%s)" % (match[1], address, version, target) if address else match[1]

    return _LINK.sub(link, _IMAGE.sub(picture, _COMMENT.sub("", text)))


def _is_relative(target: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is None
