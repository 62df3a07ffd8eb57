"""The choice of a node's `Peers`. A run on one node imports nothing of the channel between nodes."""

from __future__ import annotations

import selectors

from worldsize.agent.control.rendezvous import HeadResources, Rendezvous
from worldsize.agent.control.solo_peers import Peers
from worldsize.plan.rank_variables import Host


def make_peers(
    own: Host,
    node_rank: int,
    rendezvous: Rendezvous,
    head: HeadResources | None,
    endpoint: str | tuple[str, int],
    nodes: int,
    selector: selectors.BaseSelector,
) -> Peers:
    """Return the object through which the supervisor of node `node_rank` communicates with the other nodes of a run:
    Peers for a run on one node, HeadPeers if `head` is given, since the node is then the head, else MemberPeers."""
    if nodes == 1:
        return Peers(own)
    from worldsize.agent.control.peers import HeadPeers, MemberPeers

    if head is not None:
        return HeadPeers(own, head, endpoint, nodes, selector)
    return MemberPeers(own, node_rank, rendezvous, endpoint, selector, nodes=nodes)
