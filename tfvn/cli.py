"""The `tfvn` command.

A subcommand is one `_add_<name>` function, which describes its arguments, and one
`_run_<name>` function, which does the work and returns the exit status.
"""

import argparse
import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from tfvn.installed import version

# What fits the seeds of a served model, and all that Keras seeds.
_LARGEST_SEED = 2**31 - 1

_DESCRIPTION = """\
Stochastic and Bayesian layers for Keras 3.

Start with `tfvn quickstart`: in under a minute it trains a network whose
weights are pure noise, and shows that it knows when it does not know.
"""

_EXAMPLES = """\
examples:
  tfvn quickstart               train on the digits inside the package
  tfvn quickstart --epochs 5    the same, shorter and less accurate
  tfvn inspect saved_models/digits
                                what an export answers, and what it is made of
  tfvn predict saved_models/digits --input images.npy
                                ask it, as TensorFlow Serving would
  tfvn COMMAND --help           what a command does and takes
"""

_QUICKSTART = """\
Train a variance network on 8x8 digits that come with the package, with plain
`keras.Sequential` and `model.fit`. No network and no data directory is needed.

It prints the test accuracy three ways:
  mean weights   every weight at its mean, zero: a random guess
  one sample     one draw of the weights: what training optimises
  20 samples     the average of 20 draws: better than one

and the predictive entropy on digits, on inverted digits and on noise: the
network is less sure of inputs unlike those it was trained on. In the end the
ensemble is exported for TensorFlow Serving, and asked.
"""

_QUICKSTART_EXAMPLES = """\
examples:
  tfvn quickstart
  tfvn quickstart --epochs 5 --seed 1
"""


_INSPECT = """\
Show what a saved model holds.

For an export of `tfvn.export_ensemble`, or a directory of versions (then the
newest): its signatures with names, types and shapes, the number of draws, the
posteriors of its layers, and the other versions. For a `.keras` file: its
stochastic layers.
"""

_INSPECT_EXAMPLES = """\
examples:
  tfvn inspect saved_models/digits
  tfvn inspect saved_models/digits/3
  tfvn inspect model.keras
"""

_PREDICT = """\
Ask an export of `tfvn.export_ensemble` without a server. The rows come from a
`.npy` file or, for a model of several inputs, from a `.npz` file that has them
by name. Numbers become the type that the export wants where that changes no
value; inputs of strings are arrays of NumPy's strings, not of objects.
"""

_PREDICT_EXAMPLES = """\
examples:
  tfvn predict saved_models/digits --input images.npy
  tfvn predict saved_models/digits --input images.npy --seed 1
  tfvn predict saved_models/digits --input images.npy \\
      --signature samples --output samples.npz
"""


class CommandError(Exception):
    """A mistake of the user's that one line explains and no traceback helps with."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the `tfvn` command.

    Args:
        argv: Arguments without the program's name; `None` takes them from the
            command line.

    Returns:
        The exit status: 0, 2 for a mistake in the arguments, 130 after Ctrl-C, 141 if
        whoever reads the output has left (`tfvn inspect PATH | head -1`).
    """
    parser = _build_parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes once more when it ends, and would complain.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CommandError as error:
        print(f"tfvn: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfvn: error: {message} (see `{self.prog} --help`)\n")


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tfvn",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=None)
    parser.add_argument(
        "--version",
        action="version",
        version=_versions(),
        help="show the versions of tfvn and of what it runs on, and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_quickstart(commands)
    _add_inspect(commands)
    _add_predict(commands)
    return parser


def _add_quickstart(commands) -> None:
    parser = commands.add_parser(
        "quickstart",
        help="train a variance network on digits and look at its uncertainty",
        description=_QUICKSTART,
        epilog=_QUICKSTART_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--epochs",
        type=_integer_from(1),
        default=40,
        metavar="N",
        help="passes over the training digits (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=_integer_from(0, _LARGEST_SEED),
        default=0,
        metavar="N",
        help="fixes initial weights, shuffling and noise, from 0 to 2147483647 "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--export",
        type=pathlib.Path,
        default=pathlib.Path("saved_models/digits"),
        metavar="PATH",
        help="where the export goes, as a new version (default: %(default)s)",
    )
    parser.set_defaults(run=_run_quickstart)


def _run_quickstart(arguments: argparse.Namespace) -> int:
    from tfvn.quickstart import run
    from tfvn.serving import versions

    with _mistakes():
        # Before minutes of training, not after.
        versions.place(arguments.export)
    run(epochs=arguments.epochs, seed=arguments.seed, export=arguments.export)
    return 0


def _add_inspect(commands) -> None:
    parser = commands.add_parser(
        "inspect",
        help="show what an export or a saved model holds",
        description=_INSPECT,
        epilog=_INSPECT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=pathlib.Path, metavar="PATH", help="the model")
    parser.set_defaults(run=_run_inspect)


def _run_inspect(arguments: argparse.Namespace) -> int:
    from tfvn.serving import inspection

    with _mistakes():
        text = inspection.describe(arguments.path)
    print(text)
    return 0


def _add_predict(commands) -> None:
    parser = commands.add_parser(
        "predict",
        help="ask an export, as TensorFlow Serving would",
        description=_PREDICT,
        epilog=_PREDICT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=pathlib.Path, metavar="PATH", help="the export")
    parser.add_argument(
        "--input",
        type=pathlib.Path,
        required=True,
        metavar="FILE",
        help="a .npy file of rows, or a .npz file of several inputs by name",
    )
    parser.add_argument(
        "--signature",
        metavar="NAME",
        help="which signature to ask (default: serving_default, or seeded with --seed)",
    )
    parser.add_argument(
        "--seed",
        type=_integer_from(0, _LARGEST_SEED),
        metavar="N",
        help="makes the answer repeatable, from 0 to 2147483647 (default: fresh noise)",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="a .npz file for the whole answer, replaced if it is there (default: "
        "print its first rows)",
    )
    parser.set_defaults(run=_run_predict)


def _run_predict(arguments: argparse.Namespace) -> int:
    import numpy as np

    from tfvn.serving import inspection

    with _mistakes():
        _check_output(arguments.output)
        answer = inspection.ask(
            arguments.path,
            _load_arrays(arguments.input),
            arguments.signature,
            arguments.seed,
        )
        if arguments.output is not None:
            # Opened here: NumPy would add a suffix to the name.
            with arguments.output.open("wb") as file:
                # Its stub takes every keyword for `allow_pickle`.
                np.savez(file, **answer)  # type: ignore[arg-type]
            return 0
        text = inspection.show(answer)
    print(text)
    return 0


def _load_arrays(path: pathlib.Path) -> dict[str, Any]:
    """Returns the arrays of a file by name; the only one of a .npy file has none."""
    import numpy as np

    try:
        # Opened here: NumPy would leave open what it cannot read.
        with path.open("rb") as file:
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            arrays = dict(loaded)
    except OSError:
        raise
    # Whatever the file makes NumPy raise, the file is what is wrong.
    except Exception as error:
        raise CommandError(
            "the input must be a .npy or .npz file of numbers or strings, written by "
            f"`numpy.save` or `numpy.savez` without pickled objects. Received: {path}: "
            f"{_first_line(error)}"
        ) from error
    if not arrays:
        raise CommandError(f"the input must have an array. Received: {path} with none")
    return arrays


def _check_output(path: pathlib.Path | None) -> None:
    """Raises before anything is computed that could not be written."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise CommandError(
            "the output must be a file in a directory that is there. "
            f"Received: --output {path}"
        )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _mistakes() -> Iterator[None]:
    """Turns what paths, files and rows of the user's can get wrong into one line."""
    import tensorflow as tf

    from tfvn.serving.saved_model import reason

    try:
        yield
    except tf.errors.OpError as error:
        raise CommandError(reason(error)) from error
    except (OSError, ValueError) as error:
        raise CommandError(_first_line(error)) from error


def _integer_from(smallest: int, largest: int | None = None):
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
    return f"tfvn {version('tfvn')} (" + (
        ", ".join(f"{name} {version(name)}" for name in stack) + ")"
    )
