"""The `tfvn` command, which reads its arguments before it imports TensorFlow.

This module is outside the package on purpose. Importing anything of `tfvn` runs
`tfvn/__init__.py`, which imports TensorFlow and takes seconds. This module prints help and
errors in the arguments at once; then it imports the function `run` of
`tfvn/cli/<command>.py` and calls it with the arguments by name.

`TF_CPP_MIN_LOG_LEVEL=0 tfvn ...` shows all log lines of TensorFlow.
"""

import argparse
import contextlib
import importlib
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any, NoReturn

import _tfvn_reproduce

# The largest seed that served models and everything that Keras seeds accept.
_LARGEST_SEED = 2**31 - 1

_DESCRIPTION = """\
Stochastic and Bayesian layers for Keras 3.

Start with `tfvn quickstart`: in under a minute it trains a network with a
layer whose weights are pure noise around zero, and shows that the network is
less certain about inputs that differ from its training data.
"""

_EXAMPLES = """\
examples:
  tfvn quickstart               train on the digits inside the package
  tfvn quickstart --epochs 5    train for a shorter time, less accurately
  tfvn inspect saved_models/digits
                                show the signatures and layers of an export
  tfvn predict saved_models/digits --input images.npy
                                predict the rows of a file, without a server
  tfvn report model.keras --data digits
                                write a page on how certain a model is
  tfvn reproduce                list the experiments of papers that you can run
  tfvn COMMAND --help           show what a command does, and its options
"""

_QUICKSTART = """\
Train a variance network on 8x8 digits that come with the package, with plain
`keras.Sequential` and `model.fit`. It downloads nothing.

It prints the test accuracy with three kinds of prediction:
  mean weights   every weight is at its mean, zero: a random guess
  one sample     one draw of the weights, as in training
  20 samples     the average over 20 draws, which is better than one

It also prints the entropy of the predictions for digits, for inverted digits
and for noise: the network is less certain about inputs that differ from its
training data. At the end it exports the ensemble for TensorFlow Serving, loads
the export and calls it.
"""

_QUICKSTART_EXAMPLES = """\
examples:
  tfvn quickstart
  tfvn quickstart --epochs 5 --seed 1
"""

_INSPECT = """\
Show what is in a saved model.

For an export of `tfvn.export_ensemble`, or the newest version in a directory
of exports: its signatures with names, types and shapes, the number of draws,
the posteriors of its layers, and the other versions. For a `.keras` file: the
posteriors of its layers, their KL, and how certain their weights are, as
`tfvn.summary` shows them.
"""

_INSPECT_EXAMPLES = """\
examples:
  tfvn inspect saved_models/digits
  tfvn inspect saved_models/digits/3
  tfvn inspect model.keras
"""

_PREDICT = """\
Predict with an export of `tfvn.export_ensemble`, without a server. The rows
come from a `.npy` file or, for a model with several inputs, from a `.npz` file
with one array for each input name. Numbers are converted to the type of the
export's input if that changes no value. Strings must be in arrays of NumPy's
string type, not of Python objects.
"""

_PREDICT_EXAMPLES = """\
examples:
  tfvn predict saved_models/digits --input images.npy
  tfvn predict saved_models/digits --input images.npy --seed 1
  tfvn predict saved_models/digits --input images.npy \\
      --signature samples --output samples.npz
"""

_REPORT = """\
Write a page of HTML about a saved model: how good its predictions are, and how
certain. It shows accuracy, calibration, uncertainty on usual data and on data
from outside of the distribution, the least certain examples, and the posterior
of each layer. For a model that predicts distributions of numbers it shows the
coverage and the width of intervals instead of the accuracy.

Data are the name of a data set of `tfvn.datasets`, the test split of which is
used, or a .npz file with arrays `x` and `y` (or `x_test` and `y_test`),
prepared as in training. The page needs no network, and the command needs
matplotlib: pip install "tfvn[plots]".
"""

_REPORT_EXAMPLES = """\
examples:
  tfvn report model.keras --data digits
  tfvn report model.keras --data mnist --ood fashion_mnist -o mnist.html
  tfvn report model.keras --data test.npz --num-samples 50 --limit 500
"""

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Lines of TensorFlow's C++ logger, by the severities that the levels 1, 2 and 3 hide.
_SEVERITIES = "IWE"
_HEADER = rb"WARNING: All log messages before absl::InitializeLog"
_LOG_LINE = r"[{}]\d{{4}} \d\d:\d\d:[\d.]+ +\d+ \S+:\d+\]"


class CommandError(Exception):
    """A mistake of the user, which one line explains without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the `tfvn` command.

    Args:
        argv: Arguments without the program's name; `None` takes them from the
            command line.

    Returns:
        The exit status: 0, 2 for a mistake in the arguments, 130 after Ctrl-C, 141 if
        the reader of the output has closed it (`tfvn inspect PATH | head -1`).
    """
    parser = build_parser()
    arguments = vars(parser.parse_args(argv))
    command = arguments.pop("command")
    if command is None:
        parser.print_help()
        return 0
    at_once = arguments.pop("at_once", None)
    try:
        if at_once is not None and at_once(**arguments):
            sys.stdout.flush()
            return 0  # needs no TensorFlow
        with quiet_tensorflow():
            module = importlib.import_module(f"tfvn.cli.{command}")
        module.run(**arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, and would raise again.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CommandError as error:
        print(f"tfvn: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Hides TensorFlow's log lines, and nothing else, during imports inside the context.

    If `TF_CPP_MIN_LOG_LEVEL` is set, lines that it allows are shown.

    TensorFlow logs while its libraries load (one line per library for a missing GPU
    driver), before its logger reads `TF_CPP_MIN_LOG_LEVEL`; no variable stops these
    lines. It writes them to the file descriptor, not to `sys.stderr`.
    """
    level = os.environ.setdefault(_LOG_LEVEL, "3")
    hidden = _SEVERITIES[: int(level) if level.isdecimal() else 0]
    if not hidden:
        yield
        return
    noise = re.compile(_HEADER + b"|" + _LOG_LINE.format(hidden).encode())
    sys.stderr.flush()
    with tempfile.TemporaryFile() as captured:
        stderr = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            captured.seek(0)
            for line in captured:
                if not noise.match(line):
                    os.write(2, line)


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the arguments of all commands."""
    parser = _Parser(
        prog="tfvn",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=_versions(),
        help="show the versions of tfvn and of the libraries it uses, and exit",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command"
    )
    _add_quickstart(commands)
    _add_inspect(commands)
    _add_predict(commands)
    _add_report(commands)
    _tfvn_reproduce.add_parser(commands, _integer_from)
    return parser


class _Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfvn: error: {message} (see `{self.prog} --help`)\n")


def _add_quickstart(commands: Any) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="train a variance network on digits and show its uncertainty",
        description=_QUICKSTART,
        epilog=_QUICKSTART_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--epochs",
        type=_integer_from(1),
        default=40,
        metavar="N",
        help="number of training epochs (default: %(default)s)",
    )
    _add_seed(parser, "seed of the initial weights, the shuffling and the noise", 0)
    parser.add_argument(
        "--export",
        type=pathlib.Path,
        default=pathlib.Path("saved_models/digits"),
        metavar="PATH",
        help="directory to export to; every run adds a new version "
        "(default: %(default)s)",
    )


def _add_seed(parser: Any, meaning: str, default: int | None) -> None:
    usual = "fresh noise" if default is None else default
    parser.add_argument(
        "--seed",
        type=_integer_from(0, _LARGEST_SEED),
        default=default,
        metavar="N",
        help=f"{meaning}, from 0 to {_LARGEST_SEED} (default: {usual})",
    )


def _add_inspect(commands: Any) -> None:
    parser = commands.add_parser(
        "inspect",
        help="show what is in an export or a saved model",
        description=_INSPECT,
        epilog=_INSPECT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path",
        type=pathlib.Path,
        metavar="PATH",
        help="an export, a directory of exports, or a .keras file",
    )


def _add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict with an export, without a server",
        description=_PREDICT,
        epilog=_PREDICT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path",
        type=pathlib.Path,
        metavar="PATH",
        help="an export, or a directory of exports",
    )
    parser.add_argument(
        "--input",
        type=pathlib.Path,
        required=True,
        metavar="FILE",
        help="a .npy file with the rows, or a .npz file with an array for each input",
    )
    parser.add_argument(
        "--signature",
        metavar="NAME",
        help="signature to call (default: serving_default, or seeded if --seed is given)",
    )
    _add_seed(parser, "seed that makes the answer repeatable", None)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="a .npz file to write the whole answer to; an existing file is replaced "
        "(default: print the first rows)",
    )


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="write a page on how good and how certain a saved model is",
        description=_REPORT,
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path", type=pathlib.Path, metavar="MODEL", help="a .keras file"
    )
    parser.add_argument(
        "--data",
        required=True,
        metavar="NAME|FILE",
        help="a data set by name, or a .npz file with `x` and `y`",
    )
    parser.add_argument(
        "--ood",
        metavar="NAME|FILE",
        help="data from outside of the distribution; a file needs no `y`",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("report.html"),
        metavar="FILE",
        help="the page, replaced if it exists (default: %(default)s)",
    )
    parser.add_argument(
        "--num-samples",
        type=_integer_from(1),
        default=20,
        metavar="N",
        help="draws of the noise for each example (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=_integer_from(1),
        default=2000,
        metavar="N",
        help="use at most N examples, chosen at random (default: %(default)s)",
    )
    _add_seed(parser, "fixes the noise and the choice of examples", 0)
    parser.add_argument(
        "--outputs",
        default="auto",
        metavar="KIND",
        help="what the outputs are, if the saved model does not tell: logits, "
        "probabilities, normal, ... as in `tfvn.ensemble_predict`",
    )


def _integer_from(smallest: int, largest: int | None = None) -> Callable[[str], int]:
    """Returns a converter, for `type=`, to integers from `smallest` to `largest`."""
    if largest is None:
        expected = f"of at least {smallest}"
    else:
        expected = f"from {smallest} to {largest}"

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = smallest - 1
        if value < smallest or (largest is not None and value > largest):
            raise argparse.ArgumentTypeError(
                f"expected an integer {expected}. Received: {text!r}"
            )
        return value

    return convert


def _versions() -> str:
    stack = ("tensorflow", "keras", "tensorflow-probability")
    versions = ", ".join(f"{name} {_version(name)}" for name in stack)
    return f"tfvn {_version('tfvn')} ({versions})"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        # A source tree that was not installed, or TensorFlow under another name
        # (tensorflow-cpu): both work, but have no version to show.
        return "(not installed)"
