"""What a run takes: files and bytes below a folder, memory and processor time of a process with its children."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Footprint:
    """The size of each file below a folder, in bytes, by path."""

    sizes: Mapping[Path, int]

    @classmethod
    def of(cls, folder: Path) -> Footprint:
        """As it is now. Files that go while it is looked at are left out, and so are the local file system's checksums,
        which Hadoop keeps beside each file."""
        sizes: dict[Path, int] = {}
        for parent, _, names in os.walk(folder):
            for path in (Path(parent, name) for name in names if not name.endswith(".crc")):
                with suppress(FileNotFoundError):
                    sizes[path] = path.stat().st_size
        return cls(sizes)

    def below(self, folder: Path) -> Footprint:
        """The part that lies below another folder."""
        return Footprint({path: size for path, size in self.sizes.items() if path.is_relative_to(folder)})

    def __len__(self) -> int:
        return len(self.sizes)

    def new_since(self, before: Footprint) -> list[Path]:
        """The files that were not there before."""
        return [path for path in self.sizes if path not in before.sizes]

    def written_since(self, before: Footprint) -> int:
        """Bytes of new files, and those by which others have grown.

        What was written and removed again in the meantime is not seen.
        """
        return sum(max(0, size - before.sizes.get(path, 0)) for path, size in self.sizes.items())


@dataclass(frozen=True)
class Processes:
    """What a process and its children hold in memory, in bytes, and have had of the processors, in seconds."""

    resident: int
    processor_s: float

    @classmethod
    def of(cls, pid: int) -> Processes:
        """As it is now: Python and the Java that it has started."""
        resident, processor_s = 0, 0.0
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                resident += process.memory_info().rss
                processor_s += times.user + times.system
        return cls(resident, processor_s)
