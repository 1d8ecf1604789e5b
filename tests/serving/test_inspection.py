"""`tfvn inspect`, `tfvn predict`, and the end of `tfvn quickstart`."""

import json
import shlex

import keras
import numpy as np
import pytest
from clients import RestClient
from protocol_fixture import ProtocolFixture

import tfvn
from tfvn import cli
from tfvn.cli import quickstart


@pytest.fixture
def images(tmp_path, rows):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    return path


class TestInspect:
    @pytest.mark.parametrize("name", ["base", "version"])
    def test_export(self, export, capsys, name):
        path = export if name == "version" else export.parent
        assert cli.main(["inspect", str(path)]) == 0
        text = capsys.readouterr().out
        assert text.startswith("irises, version 1 (there are: 1)\n6 draws; ")
        assert "labels: setosa, versicolor, virginica\n" in text
        assert "samples: float32 (?, 6, 3)" in text
        assert "seed: int32 (?, 2)" in text
        assert text.count("MeanFieldDense  mean_field  gaussian  local") == 2
        assert "No signature" not in text

    def test_keras_file(self, tmp_path, capsys):
        layer = tfvn.KTiedDense(2, prior=None)
        model = keras.Sequential([keras.Input((3,)), layer], name="small")
        model.save(tmp_path / "model.keras")
        assert cli.main(["inspect", str(tmp_path / "model.keras")]) == 0
        text = capsys.readouterr().out
        assert text == f"{tfvn.summary(model)}\n"
        assert text.startswith("small, a Sequential\n")
        assert "KTiedDense  KTied()    none   local" in text

    def test_other_savedmodels(self, tmp_path, capsys):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.export(tmp_path / "other", verbose=False)
        assert cli.main(["inspect", str(tmp_path / "other")]) == 0
        assert "serving_default  " in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["", "missing", "model.keras"])
    def test_mistakes_are_one_line(self, tmp_path, capsys, name):
        if name == "model.keras":
            (tmp_path / name).write_text("not a model")
        assert cli.main(["inspect", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("tfvn: error: ")
        assert error.count("\n") == 1


class TestPredict:
    def test_prints_rows(self, export, images, capsys):
        assert cli.main(["predict", str(export.parent), "--input", str(images)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[:4] == ["row", "class", "1", "probability"]
        assert [line.split()[0] for line in lines[1:]] == list("01234")

    def test_seeds_repeat(self, export, images, tmp_path, capsys):
        answers = []
        for seed in (["--seed", "1"], ["--seed", "1"], [], []):
            output = tmp_path / "answer.npz"
            arguments = ["--input", str(images), "--output", str(output), *seed]
            assert cli.main(["predict", str(export), *arguments]) == 0
            answers.append(dict(np.load(output))["mean"])
        assert answers[0].shape == (5, 3)
        np.testing.assert_array_equal(answers[0], answers[1])
        for first, second in ((1, 2), (2, 3)):
            assert not np.any(answers[first] == answers[second])
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize(
        ("array", "options", "message"),
        [
            (np.zeros((2, 5)), [], "must have the shape (4,). Received: rows of shape"),
            (np.full((2, 4), np.nan), [], "must be finite"),
            (np.zeros((2, 4)), ["--signature", "best"], "Received: 'best'"),
            (
                np.zeros((2, 4)),
                ["--signature", "samples", "--seed", "1"],
                "'samples' takes no seed",
            ),
            (
                np.zeros((2, 4)),
                ["--signature", "mean", "--seed", "1"],
                "'mean' takes no seed; leave `--seed` out",
            ),
            (np.zeros((2, 4)), ["--signature", "seeded"], "'seeded' needs a seed"),
            (None, [], "must be a file or a folder that exists"),
        ],
        ids=["shape", "nan", "signature", "seed", "mean", "no seed", "file"],
    )
    def test_mistakes_are_one_line(
        self, export, tmp_path, capsys, array, options, message
    ):
        path = tmp_path / "rows.npy"
        if array is not None:
            np.save(path, array)
        arguments = ["predict", str(export), "--input", str(path), *options]
        assert cli.main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    def test_several_inputs_have_names(self, export, tmp_path, rows, capsys):
        path = tmp_path / "rows.npz"
        np.savez(path, inputs=rows)
        assert cli.main(["predict", str(export), "--input", str(path)]) == 0
        np.savez(path, images=rows, others=rows)
        assert cli.main(["predict", str(export), "--input", str(path)]) == 2
        assert (
            "an array for each input of the signature: ['inputs']"
            in capsys.readouterr().err
        )


def test_quickstart_exports_and_asks(tmp_path, capsys):
    figures = quickstart.run(epochs=1, export=tmp_path / "digits")
    text = capsys.readouterr().out
    assert f"Exported for TensorFlow Serving: {tmp_path / 'digits' / '1'}" in text
    assert "with probability 0." in text
    assert figures["accuracy_mean_weights"] < 0.3
    # Both measures of uncertainty are printed for all images.
    for line, name in (("test digits", "digits"), ("noise ", "noise")):
        shown = next(x for x in text.splitlines() if x.startswith(f"    {line}"))
        entropy, information = map(float, shown.rstrip(" #").split()[-2:])
        assert entropy == pytest.approx(figures[f"entropy_{name}"], abs=0.01)
        expected = figures[f"mutual_information_{name}"]
        assert information == pytest.approx(expected, abs=0.01)
    assert 0 <= figures["auroc_noise"] <= 1
    assert "It is no guarantee" in text
    # What it tells to send is what a server takes.
    curl, url, option, body = shlex.split(text.splitlines()[-1])
    assert (curl, option) == ("curl", "-d")
    assert url == "localhost:8501/v1/models/digits:predict"
    with ProtocolFixture(tmp_path / "digits") as fixture:
        client = RestClient(fixture.rest_address, "digits", is_row=True)
        (answer,) = client.post(json.loads(body))["predictions"]
    assert len(answer["mean"]) == 10
