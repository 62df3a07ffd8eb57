"""Recorded answers of nodes to the rounds of pairs: what a cluster with such nodes would have answered."""

from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.pairs import first_groups, previous_of
from worldsize.wings.checks.agent.judgement.rounds import groups_of

FAST = 600e6
LISTENS = {"port": 2000, "second_port": 30000, "token": "t"}


def compute(share=1.0, waited=0.0, throttled=0.0, stopped=0.0, kernel="md5", clock=1.0):
    """A node that gets `share` of the time that is not waited for, at a clock beside the others'."""
    figures = {"waited": waited, "throttled": throttled, "stopped": stopped}
    return {"kernel": kernel, "threads": 2, "rate": FAST * clock * share, "running": FAST * clock, **figures}


def cluster_of(count, computes=(), asked=None, facts=None, network=(), first_only=False):
    """`computes`: what some nodes compute, by rank. `network`: by rank, the bytes per second that a node can receive
    and send; others have 1e9. A connection is as fast as the slower of its ends."""
    nodes = [
        CheckedNode(
            rank, "host%d" % rank, "node%d" % rank, "10.0.0.%d" % rank, (facts or {}).get(rank, {}), {"listen": LISTENS}
        )
        for rank in range(count)
    ]
    cluster = Cluster(nodes, asked or {})
    cluster = _answered(cluster, "pairs", first_groups(range(count)), dict(computes), dict(network))
    if first_only:
        return cluster
    return _answered(cluster, "second_pairs", groups_of(cluster)[1], dict(computes), dict(network))


def _answered(cluster, name, groups, computes, network):
    links = {node: (before, _rate(network, before, node)) for node, before in previous_of(groups).items()}
    sent = dict(links.values())
    nodes = []
    for node in cluster.nodes:
        answer = {"compute": computes.get(node.node_rank, compute())}
        if node.node_rank in links:
            answer["network"] = {"received": links[node.node_rank][1], "sent": sent[node.node_rank]}
        nodes.append(node._replace(answers={**node.answers, name: answer}))
    return cluster._replace(nodes=nodes)


def _rate(network, sender, receiver):
    return min(network.get(sender, (1e9, 1e9))[1], network.get(receiver, (1e9, 1e9))[0])


def with_answer(cluster, rank, name, answer):
    """The same with another answer of one node; None: it was late."""
    node = cluster.nodes[rank]
    answers = {key: value for key, value in node.answers.items() if key != name}
    if answer is not None:
        answers[name] = answer
    nodes = [node._replace(answers=answers) if at == rank else each for at, each in enumerate(cluster.nodes)]
    return cluster._replace(nodes=nodes)
