"""Each public name of torch.cuda and torch.accelerator is emulated, harmless or refused, as the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_names
import pytest
from ranks import said_by_a_rank

REHEARSAL = Path(__file__).parents[2] / "src/worldsize/wings/rehearsal/inrank/cuda/refusals.py"
DOCS = Path(__file__).parents[2] / "docs/how-to/training/rehearsal.md"

pytest.importorskip("torch")
pytestmark = [pytest.mark.timeout(300), pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def rank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The public names that the installed torch has in a rank, and what each expression of the table leads to."""
    return said_by_a_rank(tmp_path_factory.mktemp("rank"), cuda_names.__file__)


def entries(rank: Any) -> Iterator[tuple[str, str, str]]:
    """Each expression that this torch can answer, with its module and what it led to."""
    for module, found in rank["answers"].items():
        for expression, answer in found.items():
            yield module, expression, answer


def test_each_public_name_of_this_torch_stands_in_the_table(rank: Any) -> None:
    """A name that is new in torch: say in cuda_names.py what becomes of it, and see to it that it does."""
    missing = {module: set(names) - set(cuda_names.listed(module)) for module, names in rank["names"].items()}
    assert {module: names for module, names in missing.items() if names} == {}


def test_each_name_stands_in_the_table_once() -> None:
    kinds = {(module, name): kinds for module in cuda_names.TABLE for name, kinds in cuda_names.listed(module).items()}
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_what_is_emulated_or_harmless_answers(rank: Any) -> None:
    failed = {}
    for module, expression, answer in entries(rank):
        if cuda_names.listed(module)[cuda_names.name_of(expression)] != ["refused"] and answer:
            failed[module, expression] = answer
    assert failed == {}


def test_what_is_refused_says_so_in_words_of_ours(rank: Any) -> None:
    other = {}
    for module, expression, answer in entries(rank):
        if cuda_names.listed(module)[cuda_names.name_of(expression)] == ["refused"]:
            start, end = (
                "RuntimeError: worldsize rehearsal: ",
                " cannot be rehearsed on virtual GPUs (docs/how-to/training/rehearsal.md)",
            )
            if not (answer.startswith(start) and answer.endswith(end)):
                other[module, expression] = answer
            assert answer[len(start) : -len(end)] in DOCS.read_text(), expression
    assert other == {}
