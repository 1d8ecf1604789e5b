"""`tfvn predict`: the files that it reads, what it shows, and what it writes."""

import csv
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from predict_command import answered, refused, write_png

import tfvn
from tfvn import cli
from tfvn.serving.saved_model import SavedModel

LABELS = ["setosa", "versicolor", "virginica"]


@pytest.fixture(scope="module")
def expected(export, rows):
    """The answer to the rows with the seed 1."""
    seed = np.stack([np.ones(5), np.arange(5)], axis=1)
    return SavedModel(export)({"inputs": rows, "seed": seed}, "seeded")


class TestTable:
    def test_classes(self, export, folder, rows, expected, capsys):
        np.save("rows.npy", rows)
        text = answered(capsys, export, "--input", "rows.npy", "--seed", 1)
        lines = text.splitlines()
        head = "row  class 1  probability  class 2  probability  class 3  probability"
        assert lines[0].split() == [*head.split(), "entropy", "mutual", "information"]
        for row, line in enumerate(lines[1:]):
            mean, std = expected["mean"][row], expected["std"][row]
            cells = [str(row)]
            for index in np.argsort(-mean):
                cells += [
                    LABELS[index],
                    f"{mean[index]:.3f}",
                    "+-",
                    f"{std[index]:.3f}",
                ]
            cells.append(f"{expected['entropy'][row]:.4g}")
            cells.append(f"{expected['mutual_information'][row]:.4g}")
            assert line.split() == cells
        text = answered(capsys, export, "--input", "rows.npy", "--top", 1)
        assert "class 1" in text
        assert "class 2" not in text

    def test_more_rows_than_are_shown(self, export, folder, rows, capsys):
        # More than are predicted at once, too.
        np.save("rows.npy", np.tile(rows, (60, 1)))
        options = ["--input", "rows.npy", "--seed", 1]
        lines = answered(capsys, export, *options).splitlines()
        assert len(lines) == 12
        assert lines[-1].startswith("... and 290 more rows; ")
        answered(capsys, export, *options, "-o", "answer.npz")
        answer = dict(np.load("answer.npz"))
        seed = np.stack([np.ones(300), np.arange(300)], axis=1)
        every = {"inputs": np.tile(rows, (60, 1)), "seed": seed}
        for name, value in SavedModel(export)(every, "seeded").items():
            np.testing.assert_allclose(answer[name], value, atol=1e-5)

    def test_without_noise(self, export, folder, rows, capsys):
        np.save("rows.npy", rows)
        text = answered(capsys, export, "--input", "rows.npy", "--signature", "mean")
        assert "+-" not in text
        assert text.split("\n")[0].split()[-1] == "entropy"

    def test_several_outputs(self, people, folder, capsys):
        (folder / "rows.csv").write_text("age,name\n3,Eve\n4,Bob\n")
        lines = answered(capsys, people, "--input", "rows.csv").splitlines()
        assert lines[0].split("  ")[0] == "row"
        assert "risk: class 1" in lines[0]
        assert "dose mean" in lines[0]
        assert "risk mean" not in lines[0]
        assert lines[1].split()[1] in ("low", "high")

    def test_targets(self, folder, tmp_path, capsys):
        layer = tfvn.MeanFieldDense(2, prior=None)
        model = keras.Sequential([keras.Input((2,)), layer])
        path = tfvn.export_ensemble(
            model, tmp_path / "m", 2, outputs="normal", interval=0.9
        )
        (folder / "rows.csv").write_text("1,2\n")
        lines = answered(capsys, path, "--input", "rows.csv").splitlines()
        assert [x.strip() for x in lines[0].split("  ") if x] == [
            "row",
            "mean",
            "std",
            "aleatoric std",
            "epistemic std",
            "lower",
            "upper",
        ]
        assert len(lines) == 2


class TestFiles:
    def test_csv(self, export, folder, rows, expected, capsys):
        lines = [",".join(map(repr, row)) for row in rows.astype(float).tolist()]
        for header in ([], ["a,b,c,d"], ["\ufeffsepal, b , c,d", ""]):
            (folder / "rows.csv").write_text("\n".join([*header, *lines, ""]), "utf-8")
            options = ["--input", "rows.csv", "--seed", 1, "-o", "answer.npz"]
            answered(capsys, export, *options)
            np.testing.assert_array_equal(
                np.load("answer.npz")["mean"], expected["mean"]
            )

    def test_csv_of_images(self, images, folder, capsys):
        (folder / "rows.csv").write_text("1,2,4,8\n")
        answered(capsys, images, "--input", "rows.csv", "-o", "answer.npz")
        np.testing.assert_allclose(np.load("answer.npz")["mean"], [[3, 12]], atol=1e-5)

    def test_npz(self, export, folder, rows, expected, capsys):
        options = ["--seed", 1, "-o", "answer.npz"]
        for arrays, key in (
            ({"inputs": rows}, []),
            ({"x_test": rows}, []),
            ({"x": rows, "y": rows[:, 0]}, ["--key", "x"]),
        ):
            np.savez("rows.npz", **arrays)
            answered(capsys, export, "--input", "rows.npz", *key, *options)
            np.testing.assert_array_equal(
                np.load("answer.npz")["mean"], expected["mean"]
            )

    @pytest.mark.parametrize(
        ("pixels", "mean"),
        [("0..255", [255, 153]), ("0..1", [1, 0.6]), ("-1..1", [0, -0.8])],
    )
    def test_images(self, images, folder, capsys, pixels, mean):
        pixels = f"--pixels={pixels}"
        gray = np.array([[[0], [255]], [[51], [102]]], "uint8")
        (folder / "scans").mkdir()
        write_png(folder / "scans" / "b.png", gray)
        # Colours that are none, and a whole that is opaque.
        write_png(folder / "scans" / "c.PNG", np.repeat(gray, 3, axis=-1))
        opaque = np.full_like(gray, 255)
        write_png(folder / "scans" / "d.png", np.concatenate([gray, opaque], axis=-1))
        (folder / "scans" / "a.jpg").write_bytes(
            tf.io.encode_jpeg(np.full((2, 2, 1), 255, "uint8"), quality=100).numpy()
        )
        (folder / "scans" / "notes.txt").write_text("")
        options = ["--input", "scans", pixels]
        lines = answered(capsys, images, *options).splitlines()
        assert lines[0].split() == ["file", "mean", "std"]
        assert [x.split()[0] for x in lines[1:]] == ["a.jpg", "b.png", "c.PNG", "d.png"]
        answered(capsys, images, *options, "-o", "answer.npz")
        np.testing.assert_allclose(
            np.load("answer.npz")["mean"][1:], [mean] * 3, atol=1e-4
        )
        one = answered(capsys, images, "--input", "scans/b.png", pixels)
        assert one.splitlines()[1].split()[0] == "b.png"

    def test_integers_take_pixels_as_they_are(self, folder, tmp_path, capsys):
        inputs = keras.Input((2, 2), dtype="uint8")
        hidden = keras.layers.Rescaling(1.0)(inputs)
        hidden = keras.layers.GaussianNoise(1e-9)(keras.layers.Flatten()(hidden))
        path = tfvn.export_ensemble(
            keras.Model(inputs, hidden), tmp_path / "m", 2, outputs="regression"
        )
        write_png(folder / "a.png", np.array([[[1], [2]], [[3], [255]]], "uint8"))
        answered(capsys, path, "--input", "a.png", "-o", "answer.npz")
        np.testing.assert_allclose(np.load("answer.npz")["mean"], [[1, 2, 3, 255]])
        error = refused(capsys, path, "--input", "a.png", "--pixels", "0..1")
        assert "must be 0..255 for an input of uint8" in error


class TestWriting:
    @pytest.mark.parametrize("way", ["output", "format"])
    def test_csv(self, export, folder, rows, expected, capsys, way):
        np.save("rows.npy", rows)
        options = ["--input", "rows.npy", "--seed", 1]
        if way == "output":
            assert answered(capsys, export, *options, "-o", "answer.csv") == ""
            text = (folder / "answer.csv").read_text()
        else:
            text = answered(capsys, export, *options, "--format", "csv")
        found = list(csv.DictReader(text.splitlines()))
        assert len(found) == 5
        for row, line in enumerate(found):
            mean, best = expected["mean"][row], expected["mean"][row].argmax()
            assert line["row"] == str(row)
            assert line["class"] == LABELS[best]
            # The digits suffice to get the same numbers back.
            assert np.float32(line["probability"]) == mean[best]
            assert np.float32(line["probability_std"]) == expected["std"][row, best]
            assert np.float32(line["entropy"]) == expected["entropy"][row]
            assert [np.float32(line[f"mean_{label}"]) for label in LABELS] == [*mean]

    @pytest.mark.parametrize("way", ["output", "format"])
    def test_json(self, export, folder, rows, expected, capsys, way):
        np.save("rows.npy", rows)
        options = ["--input", "rows.npy", "--seed", 1, "--top", 2]
        if way == "output":
            assert answered(capsys, export, *options, "-o", "answer.json") == ""
            found = json.loads((folder / "answer.json").read_text())
        else:
            found = json.loads(answered(capsys, export, *options, "--format", "json"))
        assert (found["model"], found["version"], found["seed"]) == ("irises", "1", 1)
        assert found["labels"] == LABELS
        assert [row["row"] for row in found["rows"]] == [0, 1, 2, 3, 4]
        for name, value in expected.items():
            written = np.array([row[name] for row in found["rows"]], "float32")
            np.testing.assert_array_equal(written, value)
        for row, mean in zip(found["rows"], expected["mean"], strict=True):
            order = np.argsort(-mean)[:2]
            assert [x["class"] for x in row["top"]] == [LABELS[i] for i in order]
            assert np.float32(row["top"][0]["probability"]) == mean.max()

    def test_draws(self, export, folder, rows, capsys):
        np.save("rows.npy", rows)
        options = ["--input", "rows.npy", "--signature", "samples", "--format", "csv"]
        header = answered(capsys, export, *options).splitlines()[0].split(",")
        assert header[:3] == ["row", "samples_0_setosa", "samples_0_versicolor"]
        assert len(header) == 1 + 6 * 3

    def test_files_and_two_classes(self, people, folder, capsys):
        (folder / "rows.csv").write_text("name,age\nEve,3\n")
        options = ["--input", "rows.csv", "--format", "csv"]
        (line,) = csv.DictReader(answered(capsys, people, *options).splitlines())
        high = float(line["risk_mean_0"])
        assert line["risk_class"] == ("high" if high > 0.5 else "low")
        assert float(line["risk_probability"]) == pytest.approx(max(high, 1 - high))
        assert {"dose_mean_0", "dose_mean_1", "dose_std_0"} <= set(line)

    def test_other_suffixes(self, export, folder, rows, capsys):
        np.save("rows.npy", rows)
        error = refused(capsys, export, "--input", "rows.npy", "-o", "answer.txt")
        assert "ends in .csv, .json or .npz. Received: --output answer.txt" in error

    def test_printing_and_writing(self, export, capsys):
        with pytest.raises(SystemExit):
            cli.main(
                ["predict", "m", "--input", "x", "-o", "a.csv", "--format", "json"]
            )
        assert "not allowed with" in capsys.readouterr().err


@pytest.mark.one_in(5)
@pytest.mark.parametrize("level", ["0", None, "1", "2", "3"])
def test_console_is_quiet_at_every_level(export, folder, rows, level):
    """The command computes, so that TensorFlow has everything to say that it says."""
    np.save("rows.npy", rows)
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    # What else the tests set to keep TensorFlow quiet.
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    code = "import sys, _tfvn_command; sys.exit(_tfvn_command.main())"
    asked = ["predict", str(export), "--input", "rows.npy", "--format", "csv"]
    done = subprocess.run(
        [sys.executable, "-c", code, *asked],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.startswith("row,class,probability")
    assert done.stdout.count("\n") == 6
