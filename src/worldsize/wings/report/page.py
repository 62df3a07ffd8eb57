"""The page of a run. Its sections do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import WorldsizeError
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.sections.failure import failure, notices
from worldsize.wings.report.sections.files import files
from worldsize.wings.report.sections.head import efficiency, head
from worldsize.wings.report.sections.job import environment, job, plan, submission
from worldsize.wings.report.sections.logged import logged
from worldsize.wings.report.sections.logs import logs
from worldsize.wings.report.sections.node_facts import node_facts
from worldsize.wings.report.sections.node_use import node_use
from worldsize.wings.report.sections.ranks import checks, ranks
from worldsize.wings.report.sections.timeline import timeline
from worldsize.wings.report.text import value_text


class Part(NamedTuple):
    """A section: its name in the page, its title, and the function that makes its content. A section without content is
    omitted."""

    name: str
    title: str
    make: Callable[[RunFacts], list[Child]]


PARTS = (
    Part("run", "The run", head),
    Part("failure", "Why it ended this way", failure),
    Part("notices", "Warnings and notices", notices),
    Part("efficiency", "Efficiency", efficiency),
    Part("timeline", "Timeline", timeline),
    Part("ranks", "Ranks", ranks),
    Part("checks", "Checks of the nodes", checks),
    Part("metrics", "Logged values", logged),
    Part("use", "Resource use of the nodes", node_use),
    Part("nodes", "Hardware of the nodes", node_facts),
    Part("logs", "Logs", logs),
    Part("job", "Job", job),
    Part("plan", "Plan", plan),
    Part("environment", "Environment", environment),
    Part("submission", "Submission", submission),
    Part("files", "Files", files),
)


def run_page(facts: RunFacts) -> bytes:
    """Return the report page of the run that `facts` describes, as HTML in UTF-8."""
    pictures = facts.pictures
    sections = [
        each for part in PARTS for each in make_section(pictures, part.name, part.title, partial(part.make, facts))
    ]
    job = " " + value_text(facts.plan.name, 200) if facts.plan else ""
    page: bytes = pictures.make_page(f"{facts.run.id}{job}: {facts.status.state}", *sections)
    return page


def make_section(pictures: Any, name: str, title: str, make: Callable[[], list[Child]]) -> list[Child]:
    """Call `make`, and return a section of the report page with the content that it returns, as a list of one element;
    an empty list if there is no content. If the content cannot be made, the section contains one sentence with the
    error."""
    try:
        children = make()
    except (WorldsizeError, OSError, *PARSE_ERRORS) as error:
        # Files of the run may be damaged, or written by another user: the other sections are shown all the same.
        children = [pictures.element("p", "This cannot be read: " + _words_of(error), class_="bad")]
    return [pictures.section(name, title, *children)] if children else []


def _words_of(error: Exception) -> str:
    if isinstance(error, WorldsizeError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return f"{type(error).__name__}: {error!s:.300}"
