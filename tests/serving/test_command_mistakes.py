"""Mistakes at `tfvn inspect` and `tfvn predict`: one line each, and exit status 2."""

import contextlib
import os
import pathlib
import pickle
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn import cli
from tfvn.cli import inspect, quickstart


def refused(capsys, *arguments):
    """Returns the one line that a command ends with."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as leaving:
        status = leaving.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("tfvn: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def written(path, content):
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def integers(tmp_path_factory):
    """A SavedModel that is not ours, with one input of integers and odd answers."""

    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int32, name="words")])
        def call(self, words):
            return {
                "doubled": 2 * words,
                "text": tf.strings.as_string(words),
                "total": tf.reduce_sum(words),
            }

    module, path = Doubled(), tmp_path_factory.mktemp("foreign") / "m"
    tf.saved_model.save(module, path, {"serving_default": module.call})
    return path


FILES = {
    "empty": b"",
    "text": b"1,2,3,4\n",
    "half": None,
    "archive": b"PK\x03\x04 and nothing else",
    "pickle": pickle.dumps([1, 2]),
    "objects": None,
}


class TestInputFiles:
    @pytest.mark.parametrize("suffix", [".npy", ".npz"])
    @pytest.mark.parametrize("name", FILES)
    def test_that_are_none(self, export, tmp_path, capsys, name, suffix):
        path = tmp_path / f"rows{suffix}"
        if name == "half":
            save = np.save if suffix == ".npy" else np.savez
            save(path, np.zeros((100, 4)))
            written(path, path.read_bytes()[:-1000])
        elif name == "objects":
            rows = np.array([{"a": 1}], object)
            np.save(path, rows) if suffix == ".npy" else np.savez(path, rows)
        else:
            written(path, FILES[name])
        error = refused(capsys, "predict", export, "--input", path)
        assert "`--input` must be a .npy or .npz file" in error
        assert f"--input {path}" in error
        # NumPy's own text tells how to load pickles, which is no advice for anybody.
        assert "unsafely" not in error

    def test_that_are_missing(self, export, tmp_path, capsys):
        missing = tmp_path / "rows.npy"
        for path, options in (
            (missing, []),
            (tmp_path / "scans", ["--pixels", "0..1"]),
        ):
            error = refused(capsys, "predict", export, "--input", path, *options)
            assert "`--input` must be a file or a folder that exists" in error
            assert f"Received: --input {path}" in error
        assert "input of shape (4,)" in refused(
            capsys, "predict", export, "--input", tmp_path
        )
        np.savez(missing.with_suffix(".npz"))
        error = refused(
            capsys, "predict", export, "--input", missing.with_suffix(".npz")
        )
        assert "must contain at least one array" in error

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (
                np.zeros((2, 5)),
                "must have the shape (4,). Received: rows of shape (5,)",
            ),
            (np.zeros(4), "must have the shape (4,). Received: rows of shape ()"),
            (np.float32(1), "arrays with at least one axis"),
            (
                np.full((2, 4), np.nan),
                "input `inputs` must be finite. Received: nan in",
            ),
            (np.full((2, 4), "a"), "converted to float32"),
            (np.ones((2, 4), complex), "converted to float32"),
        ],
        ids=["shape", "vector", "scalar", "nan", "text", "complex"],
    )
    def test_of_other_rows(self, export, tmp_path, capsys, rows, words):
        path = tmp_path / "rows.npy"
        np.save(path, rows)
        for seed in ([], ["--seed", 1]):
            assert words in refused(capsys, "predict", export, "--input", path, *seed)


class TestOtherSavedModels:
    def test_are_shown_and_asked(self, integers, tmp_path, capsys):
        assert cli.main(["inspect", str(integers)]) == 0
        assert "words: int32 (?, 2)" in capsys.readouterr().out
        path = tmp_path / "rows.npy"
        np.save(path, np.array([[1.0, 2.0], [3.0, -4.0]]))  # whole numbers
        # An only input needs no name, whatever it is called.
        assert cli.main(["predict", str(integers), "--input", str(path)]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == ["row", "doubled", "text", "total"]
        assert lines[1] == ["0", "2", "4", "b'1'", "b'2'", "2"]
        assert lines[2] == ["1", "6", "-8", "b'3'", "b'-4'"]

    def test_do_not_round(self, integers, tmp_path, capsys):
        path = tmp_path / "rows.npy"
        for value in (0.5, np.nan, 2.0**31):
            np.save(path, np.full((1, 2), value))
            error = refused(capsys, "predict", integers, "--input", path)
            assert f"`words` of --input {path} must have values that int32" in error
            assert f"Received: {value} in an array of float64" in error

    def test_damaged(self, integers, tmp_path, capsys):
        base = tmp_path / "m"
        shutil.copytree(integers, base)
        written(base / "saved_model.pb", b"\xff not a protocol buffer")
        assert "which is damaged" in refused(capsys, "inspect", base)
        written(base / "saved_model.pb", b"")
        assert "with the tag 'serve'" in refused(capsys, "inspect", base)
        assert "an export" in refused(capsys, "inspect", tmp_path)
        assert "an export" in refused(capsys, "inspect", tmp_path / "missing")

    def test_that_are_elsewhere(self, export, tmp_path, capsys):
        shutil.copytree(export, tmp_path / "exports" / "m" / "1")
        (tmp_path / "exports" / "notes").mkdir()
        np.save(tmp_path / "rows.npy", np.zeros((1, 4)))
        for path, hint in (
            ("missing", ", which does not exist"),
            ("exports", ": it has none, but there are exports in exports/m"),
            ("exports/m/7", ", which does not exist; there are: exports/m/1"),
            ("exports/notes", ": it has none"),
            ("rows.npy", ", which is a file"),
        ):
            for command in (["inspect"], ["predict", "--input", tmp_path / "rows.npy"]):
                if (path, command[0]) == ("rows.npy", "inspect"):
                    continue  # a model that Keras saved is a file
                with contextlib.chdir(tmp_path):
                    error = refused(capsys, *command, path)
                assert "PATH must be an export, or a directory of numbered" in error
                assert error.endswith(f"Received: {path}{hint}\n")

    def test_without_variables(self, export, tmp_path, rows, capsys):
        base = tmp_path / "m"
        shutil.copytree(export, base)
        shutil.rmtree(base / "variables")
        np.save(tmp_path / "rows.npy", rows)
        refused(capsys, "predict", base, "--input", tmp_path / "rows.npy")


class TestKerasFiles:
    @pytest.mark.parametrize("suffix", [".keras", ".h5", ".txt", ""])
    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n"])
    def test_damaged(self, tmp_path, capsys, suffix, content):
        path = written(tmp_path / f"model{suffix}", content)
        error = refused(capsys, "inspect", path)
        assert "must be a model that Keras saved" in error
        assert str(path) in error

    def test_of_unknown_classes(self, tmp_path, capsys):
        class Unheard(keras.Layer):
            pass

        model = keras.Sequential([keras.Input((2,)), Unheard()])
        model.save(tmp_path / "model.keras")
        error = refused(capsys, "inspect", tmp_path / "model.keras")
        assert "Could not locate class 'Unheard'" in error

    def test_weights_alone(self, tmp_path, capsys):
        model = keras.Sequential([keras.Input((2,)), tfvn.VarianceDense(1, prior=None)])
        model.save_weights(tmp_path / "model.weights.h5")
        refused(capsys, "inspect", tmp_path / "model.weights.h5")


class TestArguments:
    @pytest.mark.parametrize("seed", ["-1", str(2**31), str(10**23), "9" * 5000, "x"])
    @pytest.mark.parametrize("command", ["predict", "quickstart"])
    def test_seeds(self, capsys, seed, command):
        more = ["m", "--input", "x.npy"] if command == "predict" else []
        error = refused(capsys, command, *more, "--seed", seed)
        assert "expected an integer from 0 to 2147483647" in error

    def test_largest_seed(self, export, tmp_path, rows, capsys):
        np.save(tmp_path / "rows.npy", rows)
        asked = ["predict", str(export), "--input", str(tmp_path / "rows.npy")]
        assert cli.main([*asked, "--seed", str(2**31 - 1)]) == 0
        assert capsys.readouterr().out.startswith("row")

    def test_outputs(self, export, tmp_path, rows, capsys):
        np.save(tmp_path / "rows.npy", rows)
        asked = ["predict", export, "--input", tmp_path / "rows.npy", "--output"]
        for output in (tmp_path, tmp_path / "missing" / "answer.npz"):
            assert f"Received: --output {output}" in refused(capsys, *asked, output)
        # A file is written under the name that it was given.
        assert cli.main([*map(str, asked), str(tmp_path / "answer")]) == 0
        assert np.load(tmp_path / "answer")["mean"].shape == (5, 3)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["answer", "rows.npy"]

    @pytest.mark.parametrize("export_to", ["gs://bucket/m", "file", "m/3"])
    def test_quickstart_looks_before_it_trains(
        self, tmp_path, monkeypatch, capsys, export_to
    ):
        def train():
            raise AssertionError("trained")

        monkeypatch.setattr(quickstart, "build_model", train)
        monkeypatch.chdir(tmp_path)
        pathlib.Path("file").write_text("")
        error = refused(capsys, "quickstart", "--export", export_to)
        assert "`--export` must be " in error
        assert f"Received: --export {export_to}" in error
        assert "`version`" not in error  # which the command does not have


class TestEnds:
    def test_a_reader_that_has_left(self, export, monkeypatch, capsys):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as stdout:
            monkeypatch.setattr(sys, "stdout", stdout)
            assert cli.main(["inspect", str(export)]) == 141
        # Closing has flushed what was left, without a word.
        assert capsys.readouterr().err == ""

    def test_interruption(self, monkeypatch, capsys):
        def interrupt(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(inspect, "describe", interrupt)
        assert cli.main(["inspect", "m"]) == 130
        assert capsys.readouterr() == ("", "")
