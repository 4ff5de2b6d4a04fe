"""Breaks the project in one place at a time, on a copy of the tree, and says which test notices.

`make mutations` writes docs/mutations.md and ends with 1 where something was broken and no test noticed. A few of them:
`python -m dev.mutations "truncate floor"` runs those whose name the pattern finds, and writes their lines anew.
"""

from __future__ import annotations

from dev.mutations.base import Mutation
from dev.mutations.changes import CHANGES
from dev.mutations.decode import DECODE
from dev.mutations.landing import LANDING
from dev.mutations.macros import MACROS
from dev.mutations.silver import SILVER
from dev.mutations.systems import SYSTEMS

__all__ = ["MUTATIONS", "Mutation"]

MUTATIONS = (*CHANGES, *DECODE, *LANDING, *SILVER, *MACROS, *SYSTEMS)
