"""What the documentation shows is run: README, docstrings, examples."""

import ast
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import tfvn
from tfvn.cli import quickstart

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MODULES = [
    module.name
    for module in pkgutil.walk_packages(tfvn.__path__, "tfvn.")
    if not module.name.endswith("__main__")
]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_readme_example_runs_as_printed(capsys):
    first, second = python_blocks(ROOT / "README.md")
    assert len([line for line in first.splitlines() if line]) == 12
    scope = {}
    keras.utils.set_random_seed(0)
    exec(first, scope)
    accuracy = float(capsys.readouterr().out.splitlines()[-1].split("accuracy: ")[1])
    assert accuracy > 0.95
    # What the sentences below it say about its uncertainty.
    model, usual = scope["model"], scope["answer"].mutual_information
    noise = quickstart.strange_images(scope["x_test"])["noise"]
    answer = tfvn.ensemble_predict(model, noise, num_samples=20)
    assert quickstart.auroc(usual, answer.mutual_information) > 0.95
    assert (answer.std.max(axis=-1) > 0).all()
    assert_same_network(model, quickstart.build_model())
    exec(second, scope)
    assert scope["layer"].kl_weight.numpy() == pytest.approx(1 / 1437)


def assert_same_network(model, other):
    assert [type(layer) for layer in model.layers] == [
        type(layer) for layer in other.layers
    ]
    for layer, twin in zip(model.layers, other.layers, strict=True):
        config, expected = layer.get_config(), twin.get_config()
        for key in set(config) - {"name"}:
            assert config[key] == expected[key], (layer, key)
    optimizer, expected = (x.optimizer.get_config() for x in (model, other))
    assert {**optimizer, "name": ""} == {**expected, "name": ""}
    assert model.loss == other.loss


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_choices_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "choices.md")
    scope = {}
    exec(block, scope)
    # On a slow machine a progress bar stands after it.
    lines = capsys.readouterr().out.splitlines()
    logs = [ast.literal_eval(line) for line in lines if line.startswith("{")]
    assert [log["kl_weight"] > 0.095 for log in logs] == [False, False, True]
    assert logs[-1]["nll"] < logs[0]["nll"]
    assert min(log["kl"] for log in logs) > 0
    assert scope["answer"].mean.shape == (360, 10)


def test_parts_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "parts.md")
    exec(block, {})
    shape, law, kl, same = capsys.readouterr().out.splitlines()[-4:]
    assert shape == "(2, 10)"
    assert law == "KTiedNormal (64, 10)"
    assert float(kl.split()[-1]) == pytest.approx(float(same.split()[-1]))


def test_pitfalls_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "pitfalls.md")
    exec(block, {})
    stock, ours = capsys.readouterr().out.splitlines()[-2:]
    assert stock.startswith("keras ")
    assert ours.startswith("tfvn ")
    # The two models minimise the same loss, up to the noise of one epoch.
    stock, ours = (float(line.split()[-1]) for line in (stock, ours))
    assert stock == pytest.approx(ours, rel=0.3)


def test_training_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "training.md")
    exec(block, {})
    shown = capsys.readouterr().out.splitlines()[-1]
    assert "'elbo', 'kl', 'kl_weight', 'learning_rate_default'" in shown


def test_noise_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "noise.md")
    exec(block, {})
    shown = capsys.readouterr().out
    assert "Laplace" in shown
    assert "in likelihood" in shown


def test_recurrent_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "recurrent.md")
    exec(block, {})
    assert "(4, 1) (4, 1)" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_pruning_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "pruning.md")
    exec(block, {})
    shown = capsys.readouterr().out.splitlines()
    assert "pruned   accuracy      NLL" in shown[0]
    assert shown[-1].startswith("Sparsity(total=0.9")


@pytest.mark.exhaustive
def test_laplace_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "laplace.md")
    exec(block, {})
    accuracy, precision, evidence = capsys.readouterr().out.splitlines()[-3:]
    assert float(accuracy.split()[-1]) > 0.9
    assert float(precision.split()[-1]) > 0
    assert float(evidence.split()[-1]) < 0


def test_serving_page_runs_as_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The others ask a server, and run in tests/serving.
    block, *_ = python_blocks(ROOT / "docs" / "serving.md")
    exec(block, {})
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == "['entropy', 'mean', 'mutual_information', 'std']"
    assert (tmp_path / "saved_models/digits/1/saved_model.pb").is_file()


def test_prediction_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "prediction.md")
    scope = {}
    exec(block, scope)
    shown = capsys.readouterr().out.splitlines()
    assert "mutual_information" in shown[-2]
    assert float(shown[-1].split()[-1]) < 0.2
    assert scope["answer"].mean.shape == (360, 10)


@pytest.mark.exhaustive
def test_inspecting_page_runs_as_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks(ROOT / "docs" / "inspecting.md")
    scope = {}
    exec(block, scope)
    shown = capsys.readouterr().out
    # The tables of the page, up to the figures that depend on the training.
    page = (ROOT / "docs" / "inspecting.md").read_text()
    for line in (
        "layer    class          posterior ",
        "26,910 parameters: 1,280 mean, ",
    ):
        assert line in page
        assert line in shown
    assert scope["report"].measures["accuracy"] > 0.9
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "digits.keras").is_file()


@pytest.mark.exhaustive
def test_conversion_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "conversion.md")
    exec(block, {})
    shown = capsys.readouterr().out.splitlines()
    assert float(shown[-2].split()[-1]) > 0.01
    assert shown[-1] == "same weights True"


def test_regression_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "regression.md")
    scope = {}
    exec(block, scope)
    shown = capsys.readouterr().out.splitlines()
    # On a slow machine a progress bar stands before it.
    assert "PredictiveDistribution with num_samples=20:" in shown
    assert float(shown[-1].split()[-1]) > 0.8
    assert (scope["lower"] < scope["upper"]).all()


def test_tying_page_runs_as_printed(capsys):
    (block,) = python_blocks(ROOT / "docs" / "tying.md")
    exec(block, {})
    shown = capsys.readouterr().out
    *_, bound, kind = shown.splitlines()
    # On a busy machine a progress bar stands between these lines.
    full, tied = map(float, re.findall(r"^accuracy: (0\.\d+)$", shown, re.MULTILINE))
    assert min(full, tied) > 0.9
    assert "is_vacuous=False" in bound
    assert kind == "VarianceDense"


def test_contributing_runs_as_printed(capsys, registries):
    scope = {}
    for block in python_blocks(ROOT / "CONTRIBUTING.md"):
        exec(block, scope)
    assert capsys.readouterr().out == "(2, 3, 7)\n"
    # A layer made of the four new parts trains and reports its KL.
    layer = scope["FirstAxisDense"](
        3, posterior="laplace", prior="gumbel", estimator="two_draws", kl_weight=1e-3
    )
    model = keras.Sequential([keras.Input((5, 7)), layer])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 5, 7), "float32"), np.ones((4, 3, 7), "float32")
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(module, extraglobs={"tfvn": tfvn})
    assert failures == 0


def test_every_public_class_has_an_example():
    missing = [
        name
        for name in tfvn.__all__
        if isinstance(getattr(tfvn, name), type)
        and ">>> " not in (getattr(tfvn, name).__doc__ or "")
    ]
    assert missing == []


def test_readme_names_the_two_commands_and_make_knows_them():
    makefile = (ROOT / "Makefile").read_text()
    for command in ("quickstart", "test"):
        assert f"make {command}" in (ROOT / "README.md").read_text()
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)


def test_examples_explain_themselves_and_are_quiet():
    # In one process, because importing TensorFlow is what takes the time.
    ask = """
import contextlib, io, pathlib, runpy, sys

for path in sys.argv[1:]:
    sys.argv = [path, "--help"]
    sys.path.insert(0, str(pathlib.Path(path).parent))
    text = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(text):
        runpy.run_path(path, run_name="__main__")
    print("--quick" in text.getvalue() and text.getvalue().startswith("usage:"))
"""
    run = run_python("-c", ask, *EXAMPLES)
    assert run.stdout.split() == ["True"] * len(EXAMPLES)
    assert run.stderr == ""


def run_python(*arguments):
    # The log level that the tests set would hide whether a script is quiet by itself.
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
