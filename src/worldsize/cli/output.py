"""All output of the command line. No other module of it writes to stdout or stderr.

Text from jobs, runs, servers and files of others cannot control the terminal: it is escaped. Colours are worldsize's
own, and are used if the stream is a terminal that has them. `show` and `report` take lines: a line break within one is
part of a value and is escaped too, so that no value looks like a line of worldsize's own.

Three functions write text unchanged, because the user requested it:

show_document  if stdout is no terminal: a file to be kept, or the input of another program (`convert | patch`)
show_log       made safe by logs.text already, with the colours of the ranks: `run`, `logs`, `exec`
show_bytes     `logs --raw`

`shell` and `env shell` pass the terminal to a shell, and write nothing.
"""

from __future__ import annotations

import os
import re
import sys

from worldsize.common.named_tuple import Any, TextIO
from worldsize.errors import WorldsizeError

_CLEAR = "\r\x1b[K"
_RED, _GREEN, _YELLOW = "31", "32", "33"
_COLOURS = {
    "SUCCEEDED": _GREEN, "FAILED": _RED, "LOST": _RED, "CANCELLED": _YELLOW, "STOPPING": _YELLOW,
    "ok": _GREEN, "warning": _YELLOW, "bad": _RED, "yes": _GREEN, "no": _YELLOW,
}  # fmt: skip
"""The colours of the states of runs, and of the verdicts of checks."""
_COLOURED = r"(\x1b\[(?:31|32|33)m[A-Za-z]+\x1b\[0m)"
"""A coloured word as `state_text` makes it."""


def show(*lines: str) -> None:
    """Write lines of the command's answer to stdout, with control characters escaped. Each argument is one line."""
    sys.stdout.write("".join([_line(line, sys.stdout) + "\n" for line in lines]))


def report(*lines: str) -> None:
    """Write messages for the user to stderr at once, after the part of the command's answer that has been written to
    stdout. Control characters are escaped. Each argument is one line."""
    try:
        sys.stdout.flush()
    except OSError:
        pass  # the output has no reader; the end of the program detects it too
    sys.stderr.write("".join([_line(line, sys.stderr) + "\n" for line in lines]))
    sys.stderr.flush()


def report_message(text: str) -> None:
    """Write a message from another source, which may have several lines, to stderr. Lines after the first are
    indented."""
    report(*lines_of(text))


def report_error(error: WorldsizeError | str) -> None:
    """Write the error with which a command ends to stderr: where it is, what is wrong, and the hint. Parts of it that
    look like secrets are masked."""
    from worldsize.trust.secrets import mask_text

    if isinstance(error, str):
        report_message("worldsize: " + mask_text(error))
        return
    what = f"{error.where}: {error.what}" if error.where else error.what
    report(*lines_of("worldsize: " + mask_text(what)), *(["  → " + error.hint] if error.hint else []))


def lines_of(text: str) -> list[str]:
    """Split a message into lines, each an argument for `show` or `report`. Lines after the first are indented."""
    if text.isprintable():
        return [text]
    from worldsize.logs.text import split_message

    return split_message(text)


def terminal_width() -> int | None:
    """Return the number of columns of the terminal that stdout is; None if it is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def show_json(value: Any) -> None:
    import json

    show_json_text(json.dumps(value, indent=2, ensure_ascii=False))


def show_json_text(text: str) -> None:
    """Write the JSON text to stdout, followed by a line end. Characters in it that control a terminal are escaped,
    which does not change its value."""
    if not text.isascii() or "\x7f" in text:
        from worldsize.logs.text import escape_json

        text = escape_json(text)
    sys.stdout.write(text + "\n")


def show_document(text: str) -> None:
    """Write the text of a whole file to stdout, for the user to keep or as the input of another program. It is written
    unchanged if stdout is no terminal, else with control characters escaped."""
    if sys.stdout.isatty():
        show(*text.removesuffix("\n").split("\n"))
    else:
        sys.stdout.write(text)


def show_log(text: str) -> None:
    """Write the output of ranks to stdout at once. `text` was made safe for a terminal by logs.text."""
    sys.stdout.write(text)
    sys.stdout.flush()


def show_error_log(text: str) -> None:
    """Write the stderr output of ranks, or of a command on nodes, to stderr at once. `text` was made safe for a
    terminal by logs.text."""
    sys.stderr.write(text)
    sys.stderr.flush()


def show_bytes(data: bytes) -> None:
    """Write bytes to stdout unchanged, as the user requested."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def show_transient_line(text: str = "") -> None:
    """Show a line on stderr, at a terminal, that the next call replaces; "" removes it. The line is cut to the
    terminal's width."""
    sys.stderr.write(_CLEAR + _line(text, sys.stderr)[: _columns() - 1])
    sys.stderr.flush()


def show_question(question: str) -> None:
    """Write a question for the user to stderr, without a line end, so that the user types the answer after it."""
    sys.stderr.write(_line(question, sys.stderr))
    sys.stderr.flush()


def report_from_handler(*lines: str) -> None:
    """Write messages to stderr as `report` does, from inside a signal handler, where the buffered streams may be in
    use."""
    try:
        os.write(2, "".join([_line(line, sys.stderr) + "\n" for line in lines]).encode(errors="backslashreplace"))
    except OSError:
        pass  # there is no reader


def _line(text: str, stream: TextIO) -> str:
    if text.isprintable():
        return text
    from worldsize.logs.text import escape

    if "\x1b" in text and _has_colours(stream):
        return "".join([piece if i % 2 else escape(piece) for i, piece in enumerate(re.split(_COLOURED, text))])
    return escape(text)


def state_text(state: str, stream: TextIO) -> str:
    """Return the name of a run's state, or a check's verdict, in its colour if the stream is a terminal and the user
    has not disabled colours (https://no-color.org); else unchanged."""
    return f"\x1b[{_COLOURS[state]}m{state}\x1b[0m" if state in _COLOURS and _has_colours(stream) else state


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
