"""Samples come from a server that accepts the connection, sends the first ones, and then nothing."""

import socket
import threading

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import AT, about_to_hang, hangs, is_culprit, say
from torch.utils.data import DataLoader


def serve(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.sendall(b"x" * (SIZE * AT if is_culprit() else 400))
    threading.Event().wait()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
connection = socket.create_connection(listener.getsockname())


class Remote(Samples):
    def fetch(self, index: int) -> None:
        if hangs(index / SIZE):
            about_to_hang()
        connection.recv(1)  # here


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Remote(), batch_size=SIZE)):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
