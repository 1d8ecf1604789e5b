import argparse
import importlib
import inspect
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import keras
import numpy as np
import pytest

import _tfvn_command
import tfvn
from tfvn import cli
from tfvn.cli import quickstart
from tfvn.cli import report as report_command

ROOT = Path(_tfvn_command.__file__).parent
LOG_LINE = b"I0000 00:00:1794792368.065575    2857 a.cc:31] No GPU.\n"

# What the console script does.
SCRIPT = "import sys, _tfvn_command; sys.exit(_tfvn_command.main())"

# Help, versions and mistakes, one after the other, where nothing can be imported.
AT_ONCE = """
import json, sys, _tfvn_command

sys.modules["tensorflow"] = sys.modules["tfvn"] = None
for arguments in json.loads(sys.argv[1]):
    try:
        status = _tfvn_command.main(arguments)
    except SystemExit as leaving:
        status = leaving.code
    print("status", status)
"""


def launch(*arguments, code=SCRIPT):
    """Runs code as a shell would: a new process, no variable set by us."""
    inherited = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=inherited,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def exit_status(arguments):
    """Returns the status of a command that leaves through argparse."""
    with pytest.raises(SystemExit) as leaving:
        cli.main(arguments)
    return leaving.value.code


@pytest.fixture
def log_level_unset(monkeypatch):
    # Set first, so that what the code under test sets is undone as well.
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")


@pytest.fixture
def quickstart_calls(monkeypatch):
    """Replaces the quickstart by a recorder of its arguments."""
    calls = []
    monkeypatch.setattr(quickstart, "run", lambda **kwargs: calls.append(kwargs))
    return calls


class TestLauncher:
    def test_is_the_console_script(self):
        (script,) = metadata.entry_points(group="console_scripts", name="tfvn")
        assert script.load() is _tfvn_command.main

    def test_answers_before_it_imports(self):
        asked = {
            (): 0,
            ("--help",): 0,
            ("--version",): 0,
            ("predict", "--help"): 0,
            ("report", "--help"): 0,
            ("fly",): 2,
            ("predict", "m"): 2,
            ("report", "m"): 2,
            ("quickstart", "--epochs", "none"): 2,
        }
        done = launch(json.dumps(list(asked)), code=AT_ONCE)
        assert done.returncode == 0
        found = [line for line in done.stdout.split("\n") if line.startswith("status")]
        assert found == [f"status {status}" for status in asked.values()]
        assert "examples:" in done.stdout
        assert f"tfvn {metadata.version('tfvn')} (tensorflow " in done.stdout
        # A mistake is one line.
        lines = done.stderr.splitlines()
        assert len(lines) == 4
        assert "invalid choice: 'fly'" in lines[0]
        assert "--input" in lines[1]
        assert "--data" in lines[2]
        assert "Received: 'none'" in lines[3]

    def test_is_quiet_when_it_imports(self, tmp_path):
        done = launch("inspect", str(tmp_path))
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("tfvn: error: PATH must be an export")
        assert done.stderr.count("\n") == 1

    def test_what_is_no_log_line_is_passed_on(self, capfd, log_level_unset):
        with _tfvn_command.quiet_tensorflow():
            assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
            os.write(2, LOG_LINE)
            os.write(2, b"a warning somebody should see\n")
        assert capfd.readouterr().err == "a warning somebody should see\n"

    def test_a_failed_import_shows_its_messages(self, capfd, log_level_unset):
        def fail():
            with _tfvn_command.quiet_tensorflow():
                os.write(2, b"library not found\n")
                raise ImportError

        with pytest.raises(ImportError):
            fail()
        os.write(2, b"and stderr works again\n")
        assert capfd.readouterr().err == "library not found\nand stderr works again\n"

    @pytest.mark.parametrize(
        ("level", "shown"),
        [("0", "IWEF"), ("x", "IWEF"), ("1", "WEF"), ("2", "EF"), ("3", "F")],
    )
    def test_a_level_the_user_set_is_kept(self, capfd, monkeypatch, level, shown):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
        with _tfvn_command.quiet_tensorflow():
            for severity in b"IWEF":
                os.write(2, bytes([severity]) + LOG_LINE[1:])
        lines = capfd.readouterr().err.splitlines()
        assert "".join(line[0] for line in lines) == shown
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == level


class TestCommand:
    def test_nothing_asked_shows_the_help(self, capsys):
        assert cli.main([]) == 0
        assert "usage: tfvn" in capsys.readouterr().out

    def test_unknown_command(self, capsys):
        assert exit_status(["fly"]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "'fly'" in error
        assert "quickstart" in error

    def test_mistake_of_the_user(self, capsys, monkeypatch):
        def refuse(**_):
            raise _tfvn_command.CommandError("no such model. Received: path='x'")

        monkeypatch.setattr(quickstart, "run", refuse)
        assert cli.main(["quickstart"]) == 2
        captured = capsys.readouterr()
        assert captured.err == "tfvn: error: no such model. Received: path='x'\n"
        assert captured.out == ""

    def test_a_mistake_of_ours_is_not_hidden(self, monkeypatch):
        def crash(**_):
            raise ValueError("a bug")

        monkeypatch.setattr(quickstart, "run", crash)
        with pytest.raises(ValueError, match="a bug"):
            cli.main(["quickstart"])

    def test_interruption_is_quiet(self, capsys, monkeypatch):
        def interrupt(**_):
            raise KeyboardInterrupt

        monkeypatch.setattr(quickstart, "run", interrupt)
        assert cli.main(["quickstart"]) == 130
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize("name", _tfvn_command.COMMANDS)
    def test_arguments_are_those_of_the_function(self, name):
        parser = argparse.ArgumentParser(add_help=False)
        _tfvn_command._arguments_of(name)["add_arguments"](parser)
        run = importlib.import_module(f"tfvn.cli.{name}").run
        parameters = inspect.signature(run).parameters
        assert {action.dest for action in parser._actions} == set(parameters)
        for action in parser._actions:
            is_required = parameters[action.dest].default is inspect.Parameter.empty
            # Without its name, `at_once` answers in place of the function.
            is_answered = action.dest == "name" and parser.get_default("at_once")
            assert action.required == (is_required and not is_answered), action.dest
            if not is_required:
                given = parameters[action.dest].default
                assert str(action.default) == str(given), action.dest


class TestQuickstart:
    def test_arguments_reach_it(self, quickstart_calls):
        arguments = ["--epochs", "3", "--seed", "7", "--export", "models/m"]
        assert cli.main(["quickstart", *arguments]) == 0
        (call,) = quickstart_calls
        assert call == {"epochs": 3, "seed": 7, "export": "models/m"}

    def test_defaults_are_those_of_the_function(self):
        parameters = inspect.signature(quickstart.run).parameters
        arguments = _tfvn_command.build_parser().parse_args(["quickstart"])
        assert arguments.epochs == parameters["epochs"].default
        assert arguments.seed == parameters["seed"].default
        assert arguments.export == parameters["export"].default

    @pytest.mark.parametrize(
        "arguments", [["--epochs", "0"], ["--epochs", "2.5"], ["--seed", "-1"]]
    )
    def test_bad_numbers(self, quickstart_calls, capsys, arguments):
        assert exit_status(["quickstart", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"Received: {arguments[1]!r}" in error
        assert quickstart_calls == []

    def test_help_teaches(self, capsys):
        assert exit_status(["quickstart", "--help"]) == 0
        text = capsys.readouterr().out
        assert "default: 40" in text
        assert "examples:" in text


def own_loss(y_true, y_pred):
    return y_pred[:, 0]


class TestReport:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        """A folder with a model of digits, in which the command is run."""
        folder = tmp_path_factory.mktemp("report")
        layers = [keras.layers.Flatten(), tfvn.KTiedDense(10)]
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers], name="small")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss)
        model.save(folder / "model.keras")
        return folder

    @pytest.fixture
    def files(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        return folder

    def test_writes_a_page(self, files, capsys):
        x, _ = tfvn.datasets.load("digits", split="test")
        np.savez("bright.npz", x_test=1 - x)
        arguments = ["model.keras", "--data", "digits", "--ood", "bright.npz"]
        numbers = ["--num-samples", "3", "--limit", "20", "--outputs", "logits"]
        assert cli.main(["report", *arguments, *numbers, "-o", "page.html"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "Predicting 20 examples of digits, 3 draws each"
        assert lines[1] == "Predicting 20 examples of bright"
        assert lines[-1].startswith("Wrote page.html (")
        assert lines[-1].endswith(" s")
        page = (files / "page.html").read_text("utf-8")
        assert "<h1>Report on small</h1>" in page
        command = " ".join(["tfvn report", *arguments, "--num-samples 3 --limit 20"])
        assert f"Made by {command} --seed 0 --outputs logits on " in page

    def test_defaults_are_those_of_the_functions(self):
        asked = ["report", "model.keras", "--data", "digits"]
        arguments = vars(_tfvn_command.build_parser().parse_args(asked))
        parameters = inspect.signature(report_command.run).parameters
        for name, value in arguments.items():
            if name not in ("command", "path", "data"):
                assert value == parameters[name].default, name
        library = inspect.signature(tfvn.report).parameters
        for name in ("num_samples", "limit", "seed", "outputs"):
            assert arguments[name] == library[name].default, name

    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            ("none.keras", ["--data", "digits"], "Received: none.keras, no such file"),
            (".", ["--data", "digits"], "a .keras file. Received: ., a directory"),
            ("text.keras", ["--data", "digits"], "a model that Keras saved"),
            ("model.keras", ["--data", "digit"], "one of digits, mnist, "),
            ("model.keras", ["--data", "digit"], "Received: --data digit, which"),
            ("model.keras", ["--data", "none.npz"], "Received: --data none.npz, which"),
            ("model.keras", ["--data", "text.keras"], "must be a .npy or .npz file"),
            ("model.keras", ["--data", "x.npz"], "--data x.npz with ['x']"),
            ("model.keras", ["--data", "x.npy"], "--data x.npy with one array"),
            ("model.keras", ["--data", "flat.npz"], "--data flat.npz: Argument `x`"),
            (
                "model.keras",
                ["--data", "digits", "--ood", "flat.npz"],
                "--ood flat.npz: Argument `x` must have an array for each input",
            ),
            ("model.keras", ["--data", "labels.npz"], "an integer from 0 to 9"),
            ("model.keras", ["--data", "digits", "-o", "a/b"], "--output a/b"),
            ("model.keras", ["--data", "digits", "--outputs", "x"], "`outputs` must"),
        ],
    )
    def test_mistakes_are_one_line(self, files, capsys, model, options, message):
        (files / "text.keras").write_text("not a model")
        x = np.zeros((3, 8, 8, 1))
        np.savez("x.npz", x=x)
        np.save("x.npy", x)
        np.savez("flat.npz", x=np.zeros((3, 64)), y=np.zeros(3))
        np.savez("labels.npz", x=x, y=np.full(3, 10))
        assert cli.main(["report", model, *options]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("tfvn: error: ")
        assert message in captured.err
        assert captured.err.count("\n") == 1
        assert not (files / "report.html").exists()

    def test_a_loss_that_is_not_there(self, files, capsys):
        layers = [keras.layers.Flatten(), tfvn.KTiedDense(10)]
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
        model.compile("adam", own_loss)
        model.save("own.keras")
        options = ["--data", "digits", "--limit", "5", "--num-samples", "2"]
        assert cli.main(["report", "own.keras", *options]) == 2
        assert "say what they are with --outputs" in capsys.readouterr().err
        assert cli.main(["report", "own.keras", *options, "--outputs", "logits"]) == 0

    def test_sequences_of_several_lengths(self, files, capsys, monkeypatch):
        ragged = np.fromiter((np.ones(n, np.int32) for n in (1, 2)), dtype=object)
        pair = (ragged, np.zeros(2))
        monkeypatch.setattr(tfvn.datasets, "load", lambda *_, **__: pair)
        assert cli.main(["report", "model.keras", "--data", "imdb"]) == 2
        assert "pad them as in training" in capsys.readouterr().err

    def test_without_matplotlib(self, files, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        assert cli.main(["report", "model.keras", "--data", "digits"]) == 2
        assert 'pip install "tfvn[plots]"' in capsys.readouterr().err
