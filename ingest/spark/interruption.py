"""Ctrl-C while Java works for the main thread: its jobs are cancelled, and the command ends once Java has answered."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

# How long Java may take to answer before its jobs are cancelled again: a statement begins one after the other.
_AGAIN_AFTER_S = 0.5


def interruptible(context: SparkContext) -> None:
    """Puts another handler of SIGINT in the place of PySpark's.

    PySpark's cancels the jobs by the connection on which the main thread waits for Java, which breaks it: a py4j error
    came of it, not a KeyboardInterrupt, and what takes table after table took it for the failure of one.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or getattr(signal.getsignal(signal.SIGINT), "__module__", "") != SparkContext.__module__:
        return
    client: Any = context._gateway._gateway_client  # type: ignore[union-attr]
    if not isinstance(client.send_command, _Calls):
        client.send_command = _Calls(client.send_command)
    client.send_command.context = context
    signal.signal(signal.SIGINT, client.send_command.interrupt)


class _Calls:
    """The calls of Java, as py4j's client sends them. One of the main thread's that was interrupted ends with a
    KeyboardInterrupt, and not before Java's answer: nothing, such as a lock, is given back while Java still writes."""

    context: SparkContext

    def __init__(self, send: Callable[..., Any]) -> None:
        self._send = send
        self._under_way = 0
        self._answered = threading.Event()
        self._answered.set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return self._send(*args, **kwargs)
        self._under_way += 1
        try:
            return self._send(*args, **kwargs)
        finally:
            self._under_way -= 1
            if not self._answered.is_set():
                self._answered.set()
                raise KeyboardInterrupt

    def interrupt(self, *_: object) -> None:
        """Handles the signal. A second one waits for no answer."""
        waits = self._under_way > 0 and self._answered.is_set()
        self._answered.clear() if waits else self._answered.set()
        threading.Thread(target=self._cancel_jobs, daemon=True).start()
        if not waits:
            raise KeyboardInterrupt

    def _cancel_jobs(self) -> None:
        """By a connection of its own, as each thread has one."""
        with suppress(Py4JError, OSError):  # Java has ended: there are no jobs
            self.context.cancelAllJobs()
            while not self._answered.wait(_AGAIN_AFTER_S):
                self.context.cancelAllJobs()
