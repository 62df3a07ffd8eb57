"""A release: addresses, the description for an index, tags, the workflow that publishes, the citation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from scripts.release import packages
from scripts.release.__main__ import main
from scripts.release.metadata import index_description, project_urls, repository_address

ROOT = Path(__file__).resolve().parents[3]
ADDRESS = "https://example.org/someone/worldsize"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGET = re.compile(r"\]\(([^()\s]+)\)")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org/someone/worldsize", ADDRESS),
        ("https://example.org/someone/worldsize.git\n", ADDRESS),
        ("https://me:secret@example.org/someone/worldsize.git", ADDRESS),
        ("git@example.org:someone/worldsize.git", ADDRESS),
        ("ssh://git@example.org:2222/someone/worldsize.git", ADDRESS),
        ("/srv/git/worldsize", ""),
        ("file:///srv/git/worldsize", ""),
        ("http://example.org/someone/worldsize", ""),
        ("https://example.org/a b", ""),
        ("", ""),
    ],
)
def test_the_address_of_a_repository(text: str, expected: str) -> None:
    assert repository_address(text) == expected


def test_every_address_of_a_project_begins_with_that_of_its_repository() -> None:
    urls = project_urls(ADDRESS, "1.2.3")
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= set(urls)
    assert all(url.startswith(ADDRESS) for url in urls.values())
    assert project_urls("", "1.2.3") == {}


def test_every_link_of_readme_leads_to_the_repository_at_that_version() -> None:
    before = [each for each in TARGET.findall(README) if not each.startswith(("#", "https:"))]
    after = index_description(README, ADDRESS, "1.2.3")
    assert before
    for target in before:
        assert "](%s)" % target not in after
        assert re.search(r"\]\(%s/(blob|raw)/v1\.2\.3/%s\)" % (ADDRESS, re.escape(target)), after), target
    assert all(each.startswith("https:") for each in TARGET.findall(after))
    assert "/blob/v1.2.3/README.md#compared-with-others)" in after


def test_without_an_address_no_link_is_broken() -> None:
    after = index_description(README, "", "1.2.3")
    assert all(each.startswith("https:") for each in TARGET.findall(after))
    assert "![" not in after and "<!--" not in after
    assert "tutorial (thirty minutes" in after  # the text of a link


def test_what_a_code_block_shows_is_left_as_it_is() -> None:
    block = "```sh\necho '[a](b.md)' <!-- c -->\n```"
    assert index_description(block, ADDRESS, "1") == block


def test_the_newest_section_of_the_changelog_is_that_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert packages.newest_release(text)[0] == packages.version()
    assert packages.release_notes(text).startswith("First version")


@pytest.mark.parametrize(
    ("tag", "heading", "complaint"),
    [
        ("v0.1.0", "## 0.1.0, 2027-01-31", ""),
        ("v0.1.0", "## 0.1.0, unreleased", "CHANGELOG.md begins with '0.1.0, unreleased'"),
        ("v0.1.0", "## 0.0.9, 2027-01-31", "CHANGELOG.md begins with '0.0.9"),
        ("v0.2.0", "## 0.1.0, 2027-01-31", "the tag is v0.2.0"),
        ("0.1.0", "## 0.1.0, 2027-01-31", "the tag is 0.1.0"),
        ("v0.1.0", "nothing", "no heading"),
    ],
)
def test_a_tag_is_released_only_if_all_say_the_same(
    tag: str,
    heading: str,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n%s\n\n- text\n" % heading)
    (tmp_path / "src/worldsize").mkdir(parents=True)
    (tmp_path / "src/worldsize/version.py").write_text('VERSION = "0.1.0"\n')
    assert main(["check-tag", tag]) == (1 if complaint else 0)
    assert complaint in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLDSIZE_REPOSITORY", "ftp://example.org/x")
    assert main(["dist"]) == 1
    assert "WORLDSIZE_REPOSITORY is not the address of a repository" in capsys.readouterr().err
    assert main(["something"]) == 2


def test_only_publishing_may_ask_for_an_identity_and_comes_after_the_trials() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and jobs["publish"]["environment"]
    assert (jobs["publish"]["needs"], jobs["wheels"]["needs"]) == ("wheels", "build")
    assert "secrets." not in text and "password" not in text
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert any("check-tag" in each for each in commands) and any("try-dist" in each for each in commands)


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == packages.version() and citation["license"] == "MIT"
    assert {"cff-version", "message", "title", "authors", "abstract"} <= set(citation)
