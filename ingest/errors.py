"""The one error family of this project: what was found, where, what was expected, what to do."""

from __future__ import annotations


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


class InputError(LakeError):
    """The events that a table should take cannot be read."""


class UnavailableError(InputError):
    """What the events come from does not answer, or is not whole now: it may heal by itself."""


class WriteError(LakeError):
    """A silver table cannot be written, or is not the table that its declaration describes."""


class SetupError(LakeError):
    """The machine lacks something the work needs, such as a Java or Spark's jars."""
