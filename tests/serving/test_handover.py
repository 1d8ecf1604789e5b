"""The page in an export: what it tells, and its requests, which are sent as printed."""

import json
import re
import shlex
import shutil
import subprocess
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from loader import LoadedModel
from protocol_fixture import ProtocolFixture

import tfvn
from tfvn.serving import handover


def irises():
    model = keras.Sequential(
        [keras.Input((4,)), tfvn.MeanFieldDense(3, activation="softmax", prior=None)]
    )
    labels = ["setosa", "versicolor", "virginica"]
    # Of zeros, layers without random biases have no noise.
    return model, {"labels": labels, "example": [[5.1, 3.5, 1.4, 0.2]]}


def digits():
    """More values than the page shows, and no signature `mean`."""
    layers = [keras.layers.Flatten(), tfvn.VarianceDense(10, prior=None)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    return model, {"outputs": "logits", "example": np.ones((1, 8, 8, 1))}


def targets():
    """A distribution with an interval, and an input of integers."""
    words = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Embedding(5, 4)(words)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(words, tfvn.MeanFieldDense(2, prior=None)(hidden))
    return model, {"outputs": "normal", "interval": 0.9, "example": [[1, 2, 3]]}


def patients():
    """Several inputs and outputs, one of each without a fixed kind."""
    image, age = keras.Input((2, 2), name="image"), keras.Input((1,), name="age")
    hidden = keras.layers.Concatenate()([keras.layers.Flatten()(image), age])
    hidden = tfvn.MeanFieldDense(4, prior=None)(hidden)
    outputs = {
        "risk": keras.layers.Dense(2, activation="softmax")(hidden),
        "dose": keras.layers.Dense(1)(hidden),
    }
    model = keras.Model({"image": image, "age": age}, outputs)
    kinds = {"dose": "regression", "risk": "probabilities"}
    example = {"image": [[[1.0, 2.0], [3.0, 4.0]]], "age": [[0.1]]}
    example = {name: np.array(value) for name, value in example.items()}
    labels = {"risk": ["low", "high"]}
    return model, {"outputs": kinds, "labels": labels, "example": example}


def texts(example):
    """Strings, which need not be in UTF-8."""
    text = keras.Input((1,), dtype="string")
    numbers = keras.layers.StringLookup(
        vocabulary=["a", "it's"], output_mode="one_hot"
    )(text)
    model = keras.Model(
        text, tfvn.MeanFieldDense(1, activation="sigmoid", prior=None)(numbers)
    )
    return model, {"example": np.array([[example]], object)}


CASES = {
    "irises": irises,
    "digits": digits,
    "targets": targets,
    "patients": patients,
    "texts": lambda: texts("it's"),
    "bytes": lambda: texts(b"\xff\x00"),
    # A name that shells, URLs and Python read in different ways.
    "Bob's model": irises,
}


# `make test` takes numbers, several inputs, and bytes.
SHORT = ("irises", "patients", "bytes")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in SHORT else pytest.mark.exhaustive)
        for name in CASES
    ],
)
def served(request, tmp_path_factory):
    """An export, its page, and a fixture that serves it."""
    model, options = CASES[request.param]()
    base = tmp_path_factory.mktemp("models") / request.param
    path = tfvn.export_ensemble(model, base, 3, **options)
    with ProtocolFixture(base) as fixture:
        page = (path / "README.md").read_text("utf-8")
        page = page.replace("http://localhost:8501", fixture.rest_address)
        page = page.replace("localhost:8501", fixture.rest_address)
        page = page.replace("localhost:8500", fixture.grpc_address)
        yield types.SimpleNamespace(
            name=request.param, path=path, page=page, model=fixture.models[1]
        )


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def by_name(answer):
    """Returns the arrays of an answer of one row, in the row format of JSON."""
    (row,) = answer
    row = row if isinstance(row, dict) else {"samples": row}
    return {name: np.asarray([value], "float32") for name, value in row.items()}


def printed(code, folder, monkeypatch):
    """Runs a program in a folder, and returns what it prints."""
    monkeypatch.chdir(folder)
    shown = []
    exec(code, {"print": shown.append})
    return shown


def check(served, answers):
    """Compares answers, one for each signature, with those of the C++ loader."""
    signatures = served.model.signatures
    names = ["serving_default", "samples", "seeded", "mean"]
    names = [name for name in names if name in signatures]
    assert len(answers) == len(names)
    for name, answer in zip(names, answers, strict=True):
        assert set(answer) == set(signatures[name].outputs)
        for key, value in answer.items():
            shape = tf.TensorShape(signatures[name].outputs[key].shape)
            assert shape.is_compatible_with(value.shape), (name, key)
            assert np.isfinite(value).all()
    return dict(zip(names, answers, strict=True))


@pytest.mark.one_in(4)
def test_requests_run_as_printed(served, monkeypatch):
    rest, by_grpc = blocks(served.page, "python")
    answers = {
        "rest": [by_name(a) for a in printed(rest, served.path, monkeypatch)],
        "grpc": printed(by_grpc, served.path, monkeypatch),
    }
    if shutil.which("curl"):
        commands = blocks(served.page, "sh")[1]
        run = subprocess.run(
            ["bash", "-ec", commands],
            cwd=served.path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        decoder, text, documents = json.JSONDecoder(), run.stdout, []
        while text.strip():
            document, end = decoder.raw_decode(text)
            documents.append(by_name(document["predictions"]))
            text = text[end:].lstrip()
        answers["curl"] = documents
    checked = {way: check(served, answer) for way, answer in answers.items()}
    # The seeded answers, and those without noise, are the same whoever asks.
    for way, found in checked.items():
        for signature in {"seeded", "mean"} & set(found):
            for key, value in found[signature].items():
                expected = checked["grpc"][signature][key]
                np.testing.assert_allclose(value, expected, atol=1e-5, err_msg=way)
    # The others are not.
    assert any(
        not np.array_equal(value, checked["rest"]["samples"][key])
        for key, value in checked["grpc"]["samples"].items()
    )


@pytest.mark.one_in(4)
def test_the_server_is_started_with_this_folder(served):
    line = shlex.split(blocks(served.page, "sh")[0].replace("\\\n", " "))
    assert line[:2] == ["docker", "run"]
    assert line[line.index("-v") + 1] == f"$PWD:/models/{served.name}/1"
    assert line[line.index("-e") + 1] == f"MODEL_NAME={served.name}"
    assert [line[i + 1] for i, x in enumerate(line) if x == "-p"] == [
        "8500:8500",
        "8501:8501",
    ]
    assert line[-1] == "tensorflow/serving"


def test_every_tensor_is_told(served):
    for name, signature in served.model.signatures.items():
        section = served.page.split(f"### `{name}`")[1].split("\n#")[0]
        assert "|  |" not in section  # each has a meaning
        for tensors in (signature.inputs, signature.outputs):
            for key, spec in tensors.items():
                sizes = [
                    "any" if size is None else str(size) for size in spec.shape[1:]
                ]
                shape = ", ".join(["N", *sizes])
                assert f"| `{key}` | {spec.dtype.name} | ({shape}) |" in section
    assert "{" not in served.page.split("## Ask by REST")[0]


def test_files_that_the_page_names_are_there(served):
    for name in re.findall(r"assets\.extra/[\w.]+", served.page):
        assert (served.path / name).is_file(), name
    is_long = served.name == "digits"
    assert (served.path / "assets.extra" / "example.json").is_file() == is_long


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            irises,
            [
                "0. setosa\n1. versicolor\n2. virginica\n",
                '{"inputs": [5.1, 3.5, 1.4, 0.2]}',
                "probability of each class",
            ],
        ),
        (
            targets,
            ["with probability 0.9 |", "the expected target", "int32 | (N, any)"],
        ),
        (patients, ["The classes of `risk`", "| `dose_std` |", "the predicted number"]),
    ],
)
def test_meanings(tmp_path, case, words):
    model, options = case()
    path = tfvn.export_ensemble(model, tmp_path / "m", 3, **options)
    page = (path / "README.md").read_text("utf-8")
    for word in words:
        assert word in page
    # The loader of the server is not in the way of the page.
    assert LoadedModel(path).signatures


def test_many_labels_are_in_a_file(tmp_path):
    layer = tfvn.MeanFieldDense(60, activation="softmax", prior=None)
    model = keras.Sequential([keras.Input((2,)), layer])
    labels = [f"class {index}" for index in range(60)]
    path = tfvn.export_ensemble(model, tmp_path / "m", 2, labels=labels)
    page = (path / "README.md").read_text("utf-8")
    assert "49. class 49\n\n... and 10 more, in `assets.extra/ensemble.json`." in page
    facts = json.loads((path / "assets.extra" / "ensemble.json").read_text())
    assert facts["labels"] == labels
    assert facts["results"] == {"": "probabilities"}


def test_without_its_page_no_version_appears(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(handover, "write", fail)
    model, options = irises()
    with pytest.raises(OSError, match="no space left"):
        tfvn.export_ensemble(model, tmp_path / "m", 2, **options)
    assert list((tmp_path / "m").iterdir()) == []
