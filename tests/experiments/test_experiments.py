"""The experiments of papers: what is listed, and that each runs in its quick form."""

import ast
import importlib.util
import inspect
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

import _tfvn_command
import tfvn
from tfvn import cli, datasets, experiments
from tfvn.cli.arguments import reproduce as arguments
from tfvn.experiments import runner
from tfvn.experiments.experiment import FORMS
from tfvn.utils import data_places

ROOT = pathlib.Path(_tfvn_command.__file__).parent
FILES = {
    name: pathlib.Path(inspect.getfile(experiments)).parent
    / f"{name.replace('-', '_')}.py"
    for name in experiments.names()
}
NAMES = [
    *("kl-approximation", "lenet5-noise", "lenet5-parameterizations", "lenet5-tanh"),
    *("lenet5-variance", "noise-family", "not-bayesian", "phase-transition"),
    *("structures", "toy"),
]
SCRIPT = "import sys, _tfvn_command; sys.exit(_tfvn_command.main())"
# The cheapest run in every `make test`.
QUICK = [
    name
    if name in ("kl-approximation", "not-bayesian")
    else pytest.param(name, marks=pytest.mark.exhaustive)
    for name in NAMES
]


def command(*arguments, **kwargs):
    """Starts `tfvn reproduce` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "reproduce", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def test_names():
    assert experiments.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
class TestExperiment:
    def test_describes_itself(self, name):
        experiment = experiments.get(name)
        assert experiment.name == name
        assert experiment.claim.endswith(".")
        assert set(experiment.settings) == set(FORMS)
        assert set(experiment.data) <= {*datasets.names()}
        for form in FORMS:
            settings = experiment.settings_of(form)
            assert settings["seeds"] >= 1
            json.dumps(settings)
            # A shorter form knows the same settings.
            others = set(settings) - {"configurations"}
            assert others == set(experiment.settings["default"])
        some = experiment.settings_of("quick").get("configurations", [])
        assert set(some) <= set(experiment.configurations)

    def test_what_is_listed_is_what_it_says(self, name):
        listed = arguments.known_experiments()[name]
        experiment = experiments.get(name)
        assert listed == {key: getattr(experiment, key) for key in listed}
        assert set(listed) == {"name", "paper", "claim", "data", "minutes"}

    def test_uses_public_names_only(self, name):
        tree = ast.parse(FILES[name].read_text())
        assert ast.get_docstring(tree)
        shared = ("classifiers", "experiment", "lenet5", "training")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("tfvn"):
                assert node.module in [f"tfvn.experiments.{file}" for file in shared]
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_")
                # Only `train` calls `fit`.
                assert node.attr != "fit"
        assert len(FILES[name].read_text().splitlines()) < 320


@pytest.fixture(scope="module")
def missing():
    """The data sets that are not on this machine."""
    return [n for n in datasets.names() if not data_places.is_there(n)]


@pytest.mark.parametrize("name", QUICK)
def test_quick_form_runs(name, tmp_path, missing):
    for data in experiments.get(name).data:
        if data in missing:
            pytest.skip(f"{data} is not here: {data_places.how_to_get(data)}")
    lines = []
    folder = runner.prepare(experiments.get(name), "quick", output=tmp_path)
    result = runner.run(experiments.get(name), "quick", folder, lines.append)
    assert result["verdict"] == "not run"
    assert all((folder / image).is_file() for image in result["images"])
    assert lines[-1] == f"\nWrote {folder / 'result.json'}"
    claims = {claim["claim"] for claim in result["claims"]}
    assert len(claims) == len(result["claims"]) >= 1
    # Nothing that a resumed run would need is left, nor a file that was not finished.
    assert not (folder / "backups").exists()
    assert not list(folder.rglob("*.partial"))


def without_seconds(path):
    result = json.loads((path / "result.json").read_text())
    del result["seconds"]
    for piece in result["pieces"]:
        del piece["seconds"]
    return result


@pytest.mark.exhaustive
@pytest.mark.parametrize("epochs", [2, 4])
def test_killed_run_ends_with_the_same_figures(tmp_path, epochs):
    """`kill -9` in the middle of a training, then `--resume`."""
    # The line of an epoch is printed before its backup is written.
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = ("toy", "--quick", "--seeds", "2")
    with command(*options, "--output", whole) as process:
        assert process.wait(timeout=600) == 0
    with command(*options, "--output", killed) as process:
        for line in process.stdout:
            if f"epoch {epochs}/4" in line:
                process.send_signal(signal.SIGKILL)
                break
        process.wait(timeout=600)
    assert not (killed / "toy" / "quick" / "result.json").exists()
    with command(*options, "--output", killed) as process:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 2
        assert "must be continued with --resume" in error
    with command(*options, "--resume", "--output", killed) as process:
        shown, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
    assert "continuing after epoch" in shown
    folders = (path / "toy" / "quick" for path in (whole, killed))
    first, second = map(without_seconds, folders)
    assert first == second


@pytest.mark.exhaustive
def test_killed_lenet5_ends_with_the_same_figures(tmp_path, missing):
    if "mnist" in missing:
        pytest.skip(f"mnist is not here: {data_places.how_to_get('mnist')}")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with command("phase-transition", "--quick", "--output", whole) as process:
        assert process.wait(timeout=900) == 0
    with command("phase-transition", "--quick", "--output", killed) as process:
        for line in process.stdout:
            if "epoch 2/2" in line:
                process.send_signal(signal.SIGKILL)
                break
        process.wait(timeout=900)
    arguments = ("phase-transition", "--quick", "--resume", "--output", killed)
    with command(*arguments) as process:
        shown, _ = process.communicate(timeout=900)
        assert process.returncode == 0
    assert "continuing after epoch" in shown
    folders = (path / "phase-transition" / "quick" for path in (whole, killed))
    first, second = map(without_seconds, folders)
    assert first == second


class TestCommand:
    def test_lists_without_tensorflow(self, tmp_path):
        code = (
            "import sys, _tfvn_command\n"
            "sys.modules['tensorflow'] = sys.modules['tfvn'] = None\n"
            "sys.exit(_tfvn_command.main(['reproduce']))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for name in NAMES:
            assert f"\n{name} " in f"\n{done.stdout}"
        assert "data: mnist (not here)" in done.stdout
        assert done.stdout.count("Last result: none yet") == len(NAMES)
        assert "Neklyudov et al. (2019), table 1" in done.stdout

    def test_lists_the_last_result(self, tmp_path, capsys):
        folder = tmp_path / "toy"
        runner.write_json(folder / "settings.json", {})
        assert cli.main(["reproduce", "--output", str(tmp_path)]) == 0
        assert "interrupted; continue with --resume" in capsys.readouterr().out
        result = {"verdict": "in direction", "seconds": 90, "seeds": [0, 1]}
        runner.write_json(folder / "result.json", result)
        assert cli.main(["reproduce", "--output", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert "Last result: in direction (default, 2 seeds, 1.5 min)" in shown

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["lenet5-varience"], "(did you mean lenet5-variance?)"),
            (["fly"], "expected one of kl-approximation, lenet5-noise, "),
            (["toy", "--quick", "--full"], "not allowed with argument --quick"),
            (["toy", "--seeds", "0"], "Received: '0'"),
        ],
    )
    def test_mistakes_are_one_line(self, capsys, arguments, message):
        with pytest.raises(SystemExit) as leaving:
            cli.main(["reproduce", *arguments])
        assert leaving.value.code == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    def test_arguments_reach_the_runner(self, monkeypatch, tmp_path):
        calls = []
        monkeypatch.setattr(runner, "run", lambda *args: calls.append(args))
        options = ["--full", "--seeds", "3", "--output", str(tmp_path)]
        assert cli.main(["reproduce", "toy", *options]) == 0
        ((experiment, form, folder, _),) = calls
        assert (experiment.name, form) == ("toy", "full")
        assert folder == tmp_path / "toy" / "full"
        settings = json.loads((folder / "settings.json").read_text())
        assert (settings["seeds"], settings["epochs"]) == (3, 200)

    def test_data_that_are_not_there(self, monkeypatch, tmp_path, capsys):
        def refuse(*_):
            raise OSError

        # The answer comes before TensorFlow is imported, which takes seconds.
        monkeypatch.setitem(sys.modules, "tfvn.cli.reproduce", None)
        monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
        monkeypatch.setattr(socket, "create_connection", refuse)
        assert cli.main(["reproduce", "lenet5-tanh", "--output", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert "The data set 'mnist' is not on this machine" in error
        assert "set TFDS_DATA_DIR to a directory" in error
        assert error.count("\n") == 1
        assert not (tmp_path / "lenet5-tanh").exists()

    def test_without_matplotlib(self, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "tfvn.cli.reproduce", None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert cli.main(["reproduce", "toy"]) == 2
        assert 'pip install "tfvn[plots]"' in capsys.readouterr().err

    def test_without_tensorflow_datasets(self, monkeypatch, tmp_path, capsys):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name: None if name == "tensorflow_datasets" else name,
        )
        monkeypatch.setattr(runner, "run", lambda *_: None)
        arguments = ["--output", str(tmp_path)]
        assert cli.main(["reproduce", "lenet5-tanh", *arguments]) == 2
        assert 'pip install "tfvn[datasets]"' in capsys.readouterr().err
        assert cli.main(["reproduce", "toy", *arguments]) == 0

    def test_second_run_in_a_folder(self, tmp_path, capsys):
        with runner.locked(tmp_path / "toy"):
            arguments = ["toy", "--resume", "--output", str(tmp_path)]
            assert cli.main(["reproduce", *arguments]) == 2
        error = capsys.readouterr().err
        assert "is running in it" in error
        assert error.count("\n") == 1
        assert not (tmp_path / "toy" / "settings.json").exists()

    def test_damaged_result_is_listed(self, tmp_path, capsys):
        (tmp_path / "toy").mkdir()
        (tmp_path / "toy" / "result.json").write_text("{")
        assert cli.main(["reproduce", "--output", str(tmp_path)]) == 0
        assert "result.json is damaged" in capsys.readouterr().out

    def test_interruption_says_how_to_go_on(self, monkeypatch, tmp_path, capsys):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(runner, "run", interrupt)
        assert cli.main(["reproduce", "toy", "--output", str(tmp_path)]) == 130
        assert "The same command with --resume continues" in capsys.readouterr().out


def test_unknown_name_in_python():
    with pytest.raises(ValueError, match="Received: name='fly'"):
        experiments.get("fly")


def test_experiments_are_no_public_name():
    assert "experiments" not in tfvn.__all__
