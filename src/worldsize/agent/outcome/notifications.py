"""The notifications about an attempt that a job's `notify` command receives. This module decides which process sends
them; a wing sends them."""

from __future__ import annotations

import selectors
from collections.abc import Mapping

from worldsize.agent.outcome.node_record import NodeRecorder, note
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

_CALLER = "wings.notify.agent.caller"


class Notifications:
    """The notifications of one attempt. The parent process of the head's agent creates them, and both processes send.
    No method raises, and without `notify` nothing is done.

    pids  the process that executes the command; it may outlive the run, up to its time limit
    """

    def __init__(self, caller: Any = None) -> None:
        self.pids: tuple[int, ...] = () if caller is None else (caller.pid,)
        self._caller = caller
        self._recorder: NodeRecorder | None = None

    def attach(self, recorder: NodeRecorder, selector: selectors.BaseSelector) -> None:
        """Pass the events that the head's agent records with `recorder` from now on to the process that executes the
        job's `notify` command, and record the failures that this process reports as notices. Call this in the head's
        agent."""
        if self._caller is not None:
            self._recorder = recorder
            recorder.listener = self._hear
            selector.register(self._caller, selectors.EVENT_READ, lambda: self._take_answers(selector))

    def tell_end(self) -> None:
        """Send a notification about how the attempt has ended to the job's `notify` command, unless it was sent before.
        Wait a short time for the command. Call this once the exit record of the head is written."""
        if self._caller is not None:
            self._note(self._guard(self._caller.tell_end))

    def _hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        if kind != "notice":
            self._guard(lambda: self._caller.hear(kind, fields))

    def _take_answers(self, selector: selectors.BaseSelector) -> None:
        answers = self._guard(self._caller.take_answers)
        if answers is None:  # the process is gone
            selector.unregister(self._caller)
        self._note(answers)

    def _note(self, texts: Any) -> None:
        for text in texts or ():
            if self._recorder is None:
                note(text)
            else:
                self._recorder.write_event("notice", id="notify", text=text)

    def _guard(self, act: Any) -> Any:
        try:
            return act()
        except Exception as error:  # noqa: BLE001  # no error here ends the run
            note(f"notify: {error}")
            return None


def begin_notifications(plan: Plan, paths: RunPaths, environ: Mapping[str, str], restartable: bool) -> Notifications:
    """Start the process that sends the notifications of an attempt to the job's `notify` command, and return its
    Notifications. They do nothing without `notify`, or if they cannot be set up.

    `environ` is the environment of the command. `restartable` means that a scheduler may start the run again.
    """
    if not plan.notify:
        return Notifications()
    try:
        from worldsize.registry import find_module  # few runs need it

        wing = find_module(_CALLER)
        return Notifications(wing and wing.Caller(plan, paths, environ, restartable))
    except Exception as error:  # noqa: BLE001  # no process, or no file of the agent: the run continues
        note(f"notify: no notifications are sent for this run: {error}")
        return Notifications()
