"""What is told while data is fetched, kept for a test to look at."""

from __future__ import annotations


class RecordedProgress:
    def __init__(self) -> None:
        self.notices: list[str] = []
        self.transfers: list[tuple[str, int, int]] = []

    def notice(self, text: str, id: str = "") -> None:
        self.notices.append(text)

    def transfer(self, what: str, done: int, total: int) -> None:
        self.transfers.append((what, done, total))
