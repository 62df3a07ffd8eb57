"""The documentation's site: it is built without a warning, all of its links lead somewhere, and its search finds
what people look for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import run_browser
from documents import DOCS, ROOT
from questions import QUESTIONS, Question

pytestmark = pytest.mark.timeout(180)
FIRST = 5
"""Of what a search finds, pages that people look at."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Page(HTMLParser):
    """The links and the anchors of a page of the site."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.needed: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "link") and given.get("rel") not in ("canonical", "prev", "next"):
            self.needed += [given[name] for name in ("src", "href") if name in given]


@cache
def read_page(path: Path) -> Page:
    return Page(path)


def test_no_link_is_dead(site: Path) -> None:
    dead = []
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":
            continue  # its links are those of the site's root, wherever it is shown
        page = read_page(path)
        for link in (*page.links, *page.needed):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            wanted = unquote(parts.fragment)
            if not target.is_file() or (
                wanted and target.suffix == ".html" and wanted not in read_page(target).anchors
            ):
                dead.append("%s: %s" % (path.relative_to(site), link))
    assert dead == [], "\n".join(dead)


def test_the_site_needs_no_other_server(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert [each for each in read_page(path).needed if urlsplit(each).netloc] == []


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md")]
    assert len(pages) > 150
    assert [page for page in pages if not (site / page.with_suffix(".html")).is_file()] == []


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d" % server.server_address[1]
        server.shutdown()


_RESULTS = "[...document.querySelectorAll('.md-search-result__item > .md-search-result__link')].map(each => each.href)"

_TYPE = """(() => {
    const input = document.querySelector(".md-search__input"), text = %s
    if (input.value != text) { input.focus(); input.value = text; input.dispatchEvent(new Event("keyup")) }
    return / matching |^1 |No /.test(document.querySelector(".md-search-result__meta").innerText)
})()"""
"""What types a text into the search, and is true once there is an answer."""


@pytest.mark.exhaustive
def test_a_search_finds_the_answer_to_each_question(address: str, tmp_path: Path) -> None:
    missed = []
    with run_browser(tmp_path) as browser:
        for question in QUESTIONS:
            typed = _TYPE % json.dumps(question.search)
            shown = browser.open_page(address + "/index.html", ask=(_RESULTS,), until=typed)
            found = list(dict.fromkeys(urlsplit(link).path.lstrip("/") for link in shown.answers[0]))
            if not set(found[:FIRST]) & {page.replace(".md", ".html") for page in question.pages}:
                missed.append((question.search, found[:FIRST]))
    assert missed == []


@pytest.mark.exhaustive
def test_the_first_page_is_shown_in_light_and_dark(address: str, tmp_path: Path) -> None:
    colours = "getComputedStyle(document.body).backgroundColor"
    with run_browser(tmp_path) as browser:
        light, dark = (browser.open_page(address + "/index.html", dark=dark, ask=(colours,)) for dark in (False, True))
    assert light.answers != dark.answers
    assert light.messages == dark.messages == []
    assert [url for url in light.requests if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.search)
def test_an_answer_is_on_its_page(question: Question) -> None:
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in question.pages)
    assert question.answer in text
