"""Two ranks send one another more than a connection takes up, before either of them receives."""

import socket

from ranks import AT, RANK, about_to_hang, begin, say

begin()
if RANK == 0:
    with socket.create_server("peer.socket", family=socket.AF_UNIX) as listener:
        peer, _ = listener.accept()
else:
    peer = socket.socket(socket.AF_UNIX)
    while peer.connect_ex("peer.socket"):
        pass
for step in range(AT):
    peer.sendall(b"x")
    peer.recv(1)
    say("step %d" % step)
about_to_hang()
peer.sendall(b"x" * (1 << 24))  # here
