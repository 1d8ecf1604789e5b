"""Damaged backups, and backups of several workers."""

import zipfile

import numpy as np
import pytest
from backup_runs import OTHERS, make_model, run, weights

import tfvn
from tfvn.training.callbacks import backup as backup_module


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, 24, 3)).astype("float32")


def damaged(path, how):
    """Damages a file, and returns nothing."""
    content = path.read_bytes()
    if how == "no backup":
        np.savez(path, other=np.zeros(1))
        return
    if how == "flipped":
        # In the middle of a variable, where only the checksum shows it.
        with zipfile.ZipFile(path) as file:
            start = file.getinfo("1.npy").header_offset
        place = content.index(b"}", start) + 80
        content = bytes([*content[:place], content[place] ^ 255, *content[place + 1 :]])
    if how == "encrypted":
        # The bit in the list of files that says that a variable has a password.
        place = content.index(b"PK\x01\x02") + 8
        content = bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]])
    contents = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "nearly all": content[:-1],
        "garbage": b"What is this?" * 100,
        "zeros": bytes(len(content)),
    }
    path.write_bytes(contents.get(how, content))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "how",
    [
        "half",
        "empty",
        "nearly all",
        "garbage",
        "flipped",
        "zeros",
        "no backup",
        "encrypted",
    ],
)
def test_damaged_backup_is_skipped(data, tmp_path, how):
    run(tmp_path, data, OTHERS["turns"], backup_first=True, kill=3)
    damaged(tmp_path / "backup.npz", how)
    with pytest.warns(UserWarning, match="The backup is damaged.*Received: backup="):
        resumed, history = run(tmp_path, data, OTHERS["turns"], backup_first=True)
    assert history.epoch == [0, 1, 2, 3, 4, 5, 6]
    whole, _ = run(tmp_path / "whole", data, OTHERS["turns"], backup_first=True)
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_backup_that_may_not_be_read(data, tmp_path):
    """It is not damaged, so it must not be replaced."""
    (tmp_path / "backup.npz").mkdir()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(IsADirectoryError):
        make_model().fit(*data, callbacks=[backup], verbose=0)


class TestOneOfSeveralWorkers:
    """What one of them does, whatever the others do."""

    @pytest.fixture
    def events(self, monkeypatch):
        """What it told the others, and what the file was then."""
        found = []

        def of_all_workers(strategy, value):
            found.append((value, self.path.exists()))
            return [value, self.other(value)]

        monkeypatch.setattr(backup_module, "of_all_workers", of_all_workers)
        monkeypatch.setattr(backup_module, "is_chief", lambda _: self.is_first)
        self.is_first = True
        self.other = lambda value: value
        return found

    def fit(self, data, folder, **options):
        self.path = folder / "backup.npz"
        model = make_model()
        backup = tfvn.callbacks.BackupAndRestore(folder, **options)
        return model, model.fit(*data, epochs=2, callbacks=[backup], verbose=0)

    def test_chief_removes_the_file_when_all_have_finished(
        self, data, tmp_path, events
    ):
        self.fit(data, tmp_path)
        # All look for a backup, all have finished, and the file is gone for all.
        assert events == [(0, False), (0, True), (0, False)]

    def test_another_neither_writes_nor_removes(self, data, tmp_path, events):
        self.is_first = False
        self.fit(data, tmp_path)
        assert not self.path.exists()
        self.path.touch()
        with pytest.warns(UserWarning, match="damaged"):
            self.fit(data, tmp_path)
        assert self.path.read_bytes() == b""

    def test_all_restore_the_same(self, data, tmp_path, events):
        first, _ = self.fit(data, tmp_path, delete_checkpoint=False)
        self.is_first = False
        second, history = self.fit(data, tmp_path)
        assert history.epoch == []
        mark = events[3][0]
        assert mark > 0
        for one, other in zip(weights(first), weights(second), strict=True):
            np.testing.assert_array_equal(one, other)
        self.other = lambda value: 0
        with pytest.raises(ValueError, match=rf"that all of them share.*\[{mark}, 0\]"):
            self.fit(data, tmp_path)
