"""The environment variables of ranks, as their table has them."""

from __future__ import annotations

from scripts.documentation.tables import code, table

from worldsize.plan.rank_variables import VARIABLES


def variable_rows(convention: str) -> str:
    """Return the table of the variables of a convention, each with its value."""
    rows = [(code(each.name), each.meaning) for each in VARIABLES if each.convention == convention]
    return table(("variable", "holds"), rows)
