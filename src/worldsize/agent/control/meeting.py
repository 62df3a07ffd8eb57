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
    """Return the other nodes as node `node_rank` sees them. The node is the head if `head` is given."""
    if nodes == 1:
        return Peers(own)
    from worldsize.agent.control.peers import HeadPeers, MemberPeers

    if head is not None:
        return HeadPeers(own, head, endpoint, nodes, selector)
    return MemberPeers(own, node_rank, rendezvous, endpoint, selector, nodes=nodes)
