"""A head node that answers as it is told, and its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from servers import scripted
from servers.scripted import LOST, Asked, Reply, answers, serve

from worldsize.wings.hpcpack.head.client import HeadNodeClient
from worldsize.wings.hpcpack.settings import HeadAccess

__all__ = ["LOST", "Asked", "Reply", "Server", "props", "serving", "several"]


class Server(scripted.Server):
    def head(self, patience: float = 10.0, **access: Any) -> HeadNodeClient:
        account = HeadAccess(self.url, "CORP\\me", **access)
        return HeadNodeClient(account, lambda: "pass:wörd", patience, now=self.clock, sleep=self.sleep)


@contextmanager
def serving(answer: Callable[[Asked], Reply] | list[Reply]) -> Iterator[Server]:
    server = Server(answers(answer))
    with serve(server):
        yield server


def props(**values: object) -> list[dict[str, str]]:
    return [{"Name": name, "Value": str(value)} for name, value in values.items()]


def several(*rows: dict[str, object]) -> list[dict[str, Any]]:
    return [{"Properties": props(**row)} for row in rows]
