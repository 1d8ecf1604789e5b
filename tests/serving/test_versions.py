"""The version directory: numbers, races, readers, and processes that are killed."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import signal
import stat
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from loader import LoadedModel
from protocol_fixture import ProtocolFixture
from version_writer import small_model, write_versions

import tfvn
from tfvn.serving import versions


def answers(path):
    inputs = {"inputs": np.ones((2, 3), "float32")}
    return LoadedModel(path)(inputs)["mean"].shape == (2, 2)


def draft_versions(base, version=None):
    """Publishes a version with nothing but a file in it."""
    with versions.draft(base) as folder:
        (folder / "saved_model.pb").write_text("")
        return versions.publish(folder, base, version)


class TestNumbers:
    def test_next_integer(self, tmp_path):
        base = tmp_path / "models" / "name"
        assert draft_versions(base) == base / "1"
        assert draft_versions(base, 7) == base / "7"
        (base / "9").mkdir()  # not a version, but not ours to replace
        (base / "notes").mkdir()
        assert draft_versions(base) == base / "10"
        assert list(versions.find(base)) == [1, 7, 9, 10]

    def test_never_overwrites(self, tmp_path):
        (draft_versions(tmp_path, 3) / "mark").write_text("mine")
        (tmp_path / "4").mkdir()
        for version in (3, 4):
            with pytest.raises(FileExistsError, match="Argument `version` must"):
                draft_versions(tmp_path, version)
        assert (tmp_path / "3" / "mark").read_text() == "mine"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["3", "4"]

    def test_never_overwrites_what_appeared_meanwhile(self, tmp_path):
        with versions.draft(tmp_path) as folder:
            (folder / "saved_model.pb").write_text("")
            (draft_versions(tmp_path, 3) / "mark").write_text("mine")
            with pytest.raises(FileExistsError, match="Argument `version` must"):
                versions.publish(folder, tmp_path, 3)
        assert (tmp_path / "3" / "mark").read_text() == "mine"

    @pytest.mark.parametrize("version", [0, -1, 1.5, "2", True, 2**63])
    def test_bad_versions(self, tmp_path, version):
        with pytest.raises(ValueError, match="Argument `version` must be an integer"):
            draft_versions(tmp_path, version)

    def test_the_largest(self, tmp_path):
        assert draft_versions(tmp_path, np.int64(2**63 - 1)).name == str(2**63 - 1)
        # There is no next one.
        with pytest.raises(ValueError, match=r"from 1 to 2\*\*63 - 1"):
            draft_versions(tmp_path)
        (tmp_path / str(2**63)).mkdir()  # no server takes it for a version
        (tmp_path / ("9" * 255)).mkdir()
        assert list(versions.find(tmp_path)) == [2**63 - 1]

    def test_a_failure_leaves_nothing(self, tmp_path):
        def fail():
            with versions.draft(tmp_path) as folder:
                (folder / "half").write_text("")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert list(tmp_path.iterdir()) == []

    def test_writers_at_once_get_a_number_each(self, tmp_path):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            paths = list(pool.map(draft_versions, [tmp_path] * 64))
        assert sorted(int(p.name) for p in paths) == list(range(1, 65))

    def test_others_may_read(self, tmp_path):
        mode = draft_versions(tmp_path).stat().st_mode
        umask = os.umask(0)
        os.umask(umask)
        assert stat.S_IMODE(mode) == 0o777 & ~umask

    def test_resolve(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="PATH must"):
            versions.resolve(tmp_path)
        first, second = draft_versions(tmp_path), draft_versions(tmp_path)
        (tmp_path / "3").mkdir()
        assert versions.resolve(tmp_path) == second
        assert versions.resolve(first) == first
        # By number: as texts, 9 comes after 10.
        for number in (10, 9):
            draft_versions(tmp_path, number)
        assert versions.resolve(tmp_path).name == "10"


class TestPlaces:
    @pytest.mark.parametrize(
        "path",
        ["gs://bucket/m", "s3://bucket/m", pathlib.Path("gs://bucket/m"), "file:///m"],
    )
    def test_without_a_rename(self, tmp_path, monkeypatch, path):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match="copy the finished version"):
            tfvn.export_ensemble(small_model(), path, 2, outputs="regression")
        assert list(tmp_path.iterdir()) == []

    def test_files_and_nothing(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(NotADirectoryError, match="Argument `path` must"):
            tfvn.export_ensemble(
                small_model(), tmp_path / "file", 2, outputs="regression"
            )
        with pytest.raises(ValueError, match="Argument `path` must"):
            tfvn.export_ensemble(small_model(), "", 2, outputs="regression")

    @pytest.mark.parametrize("path", ["file", "file/m", "file/a/m", "link", "link/m"])
    def test_below_what_is_no_directory(self, tmp_path, path):
        (tmp_path / "file").write_text("")
        (tmp_path / "link").symlink_to("nowhere")
        with pytest.raises(NotADirectoryError, match="Argument `path` must"):
            versions.place(tmp_path / path)

    def test_read_only(self, tmp_path, monkeypatch):
        asked = []
        monkeypatch.setattr(os, "access", lambda *given: asked.append(given))
        with pytest.raises(PermissionError, match="Argument `path` must"):
            versions.place(tmp_path / "models" / "m")
        assert asked == [(tmp_path, os.W_OK | os.X_OK)]

    def test_a_version_of_another_model(self, tmp_path, monkeypatch):
        monkeypatch.chdir(draft_versions(tmp_path / "m", 1))
        for path in (".", "../2", tmp_path / "m" / "1"):
            with pytest.raises(ValueError, match="pass the number as `version`"):
                versions.place(path)

    def test_home(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        assert versions.place("~/models/m") == tmp_path / "models" / "m"
        assert versions.place("models/~/c:d") == pathlib.Path("models/~/c:d")


def test_readers_see_whole_versions(tmp_path):
    model = small_model()
    base = tmp_path / "m"
    base.mkdir()
    seen, done = {}, threading.Event()

    def read():
        while not done.is_set():
            for number, path in versions.find(base).items():
                if number not in seen:
                    # At once: whatever is missing now is an error.
                    seen[number] = answers(path)
            time.sleep(0.001)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for _ in range(2):
            path = tfvn.export_ensemble(model, base, 2, outputs="regression")
        deadline = time.monotonic() + 60
        while 2 not in seen and not reading.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        done.set()
        reading.result()
    assert seen == {1: True, 2: True}
    assert path == base / "2"

    # The server follows, or keeps what it is told to.
    with ProtocolFixture(base) as newest:
        assert set(newest.models) == {2}
    with ProtocolFixture(base, all_versions=True) as both:
        assert set(both.models) == {1, 2}


@pytest.fixture(scope="module")
def starter():
    """Starts processes that need not import TensorFlow anew."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tfvn"])
    return context


# What has just appeared when the process is killed.
MOMENTS = {
    "draft": ".export-*",
    "weights": ".export-*/variables/variables.data-*",
    "warm-up": ".export-*/assets.extra/tf_serving_warmup_requests",
    "page": ".export-*/README.md",
    "version": "1",
    "second version": "2",
}


@pytest.mark.exhaustive
def test_killed_at_any_moment(starter, tmp_path):
    bases = {}
    for moment, pattern in MOMENTS.items():
        base = bases[moment] = tmp_path / moment.replace(" ", "_")
        base.mkdir()
        process = starter.Process(target=write_versions, args=(base, 3))
        process.start()
        try:
            deadline = time.monotonic() + 120
            while not any(base.glob(pattern)):
                assert process.is_alive(), f"{moment}: {process.exitcode}"
                assert time.monotonic() < deadline
                time.sleep(0.0005)
        finally:
            process.kill()
            process.join()
        assert process.exitcode == -signal.SIGKILL
        process.close()
    # Whatever has a number loads and answers.
    for moment, base in bases.items():
        for path in versions.find(base).values():
            assert answers(path), moment
            assert (path / "README.md").read_text().endswith("first client.\n"), moment
    assert list(versions.find(bases["draft"])) == []
    assert list(versions.find(bases["warm-up"])) == []
    assert list(versions.find(bases["page"])) == []
    assert 1 in versions.find(bases["version"])
    assert 2 in versions.find(bases["second version"])
    # What is left of a killed one is in nobody's way.
    base = bases["warm-up"]
    assert any(base.glob(".export-*"))
    path = tfvn.export_ensemble(small_model(), base, 2, outputs="regression")
    assert path == base / "1"
    assert answers(path)


def test_half_a_version_would_be_noticed(tmp_path):
    """The check of the tests above can fail."""
    path = tfvn.export_ensemble(small_model(), tmp_path, 2, outputs="regression")
    (path / "variables" / "variables.index").unlink()
    with pytest.raises(tf.errors.OpError):
        answers(path)
