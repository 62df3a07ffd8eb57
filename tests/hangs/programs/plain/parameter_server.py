"""Rank 0 serves parameters and waits for a gradient of each rank in turn; one rank waits for an answer unasked."""

import socket

from ranks import LAST, RANK, STEPS, WORLD, about_to_hang, begin, hangs, say

begin()
if RANK == 0:
    sockets = {}
    with socket.create_server("server.socket", family=socket.AF_UNIX) as listener:
        for _ in range(LAST):
            connection, _ = listener.accept()
            sockets[connection.recv(1)[0]] = connection
    for step in range(STEPS):
        for rank in range(1, WORLD):
            sockets[rank].recv(8)  # server
        for connection in sockets.values():
            connection.sendall(b"weights!")
        say("step %d" % step)
else:
    client = socket.socket(socket.AF_UNIX)
    while client.connect_ex("server.socket"):
        pass
    client.sendall(bytes([RANK]))
    for step in range(STEPS):
        if hangs(step):
            about_to_hang()
            client.recv(8)  # here
        client.sendall(b"gradient")
        client.recv(8)  # others
        say("step %d" % step)
