"""Where processes listen."""

from __future__ import annotations

from contextlib import suppress

import psutil


def listening(process: psutil.Process) -> set[str]:
    """The addresses at which a process and those that it began accept connections: ``127.0.0.1``.

    One that ends meanwhile, as a server's short commands do, listens no more.
    """
    found: set[str] = set()
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            connections = each.net_connections("inet")
            found |= {one.laddr[0] for one in connections if one.status == psutil.CONN_LISTEN}
    return {address.removeprefix("::ffff:") for address in found}
