"""The one error family of this project: what was found, where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

_Step = ParamSpec("_Step")
_Result = TypeVar("_Result")


class LakeError(Exception):
    """An error that a person can act on.

    Parameters
    ----------
    found:
        What was found, in one sentence.
    where:
        The place: a file with table and key, a folder, a table, a command line option.
    expected:
        What is allowed there.
    action:
        What to do about it.
    """

    def __init__(self, found: str, *, where: str, expected: str = "", action: str = "") -> None:
        self.found = found
        self.where = where
        self.expected = expected
        self.action = action
        super().__init__(self.message)

    @property
    def each(self) -> tuple[LakeError, ...]:
        """The errors that this one is made of: itself alone, unless it says otherwise."""
        return (self,)

    @property
    def message(self) -> str:
        """The error as text: one line a fact."""
        lines = [f"{self.where}: {self.found}"]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.action:
            lines.append(f"  to do: {self.action}")
        return "\n".join(lines)


class DeclarationError(LakeError):
    """A sources file, a profile or a connection says something that cannot be meant."""


class DeclarationsError(DeclarationError):
    """All that is refused of the declarations, told at once."""

    def __init__(self, refused: Sequence[LakeError]) -> None:
        self._refused = tuple(refused)
        super().__init__(
            f"{len(refused)} declarations cannot be meant",
            where=", ".join(dict.fromkeys(item.where for item in refused)),
        )

    @property
    def each(self) -> tuple[LakeError, ...]:
        """The errors that this one is made of."""
        return self._refused

    @property
    def message(self) -> str:
        """The errors as text, one behind the other."""
        return "\n".join(item.message for item in self._refused)


class Refusals:
    """Collects what is refused, so that one refusal does not keep the rest from being checked."""

    def __init__(self) -> None:
        self._found: dict[str, LakeError] = {}

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Ends the block where it refuses something, and keeps that."""
        try:
            yield
        except DeclarationError as error:
            self._found |= {item.message: item for item in error.each}

    def of(self, step: Callable[_Step, _Result], *args: _Step.args, **kwargs: _Step.kwargs) -> _Result | None:
        """What a step makes; None where it refuses something."""
        with self.collected():
            return step(*args, **kwargs)
        return None

    @property
    def error(self) -> LakeError:
        """All that was refused, as one error."""
        found = tuple(self._found.values())
        return found[0] if len(found) == 1 else DeclarationsError(found)

    def tell(self) -> None:
        """Raises DeclarationError where anything was refused."""
        if self._found:
            raise self.error


class InputError(LakeError):
    """The events that a table should take cannot be read."""


class QuarantineError(InputError):
    """More of a table's events are quarantined than a table that is well has; the others are landed."""


class UnavailableError(InputError):
    """What the events come from, or go to, does not answer, or is not whole or free now: it may heal by itself."""


class AbsentError(InputError):
    """What the events should come from is not there: a topic, a stream or a folder."""


class AbsentFolderError(AbsentError, UnavailableError):
    """A folder is not there: it may come, as sinks make it, or be back."""


class WriteError(LakeError):
    """A silver table cannot be written, or is not the table that its declaration describes."""


class SetupError(LakeError):
    """The machine lacks something the work needs, such as a Java or Spark's jars."""
