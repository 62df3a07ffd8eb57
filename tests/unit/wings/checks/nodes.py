"""Nodes of a check as the head knows them, for tests of what it makes of them."""

from worldsize.wings.checks.agent.cluster import CheckedNode


def nodes_of(*facts, answers=()):
    """A node for each mapping of facts: node0 at 10.0.0.1, node1 at 10.0.0.2, …; `answers`: by stage, a list for
    all."""
    said = [{stage: given[rank] for stage, given in dict(answers).items()} for rank, _ in enumerate(facts)]
    return [
        CheckedNode(rank, "node%d" % rank, "node%d" % rank, "10.0.%d.%d" % divmod(rank + 1, 250), fact, said[rank])
        for rank, fact in enumerate(facts)
    ]


def brief(rows):
    """What tests compare of rows."""
    return [(row.node, row.verdict, row.value) for row in rows]
