"""The `tfvn` command.

A subcommand is one `_add_<name>` function, which describes its arguments, and one
`_run_<name>` function, which does the work and returns the exit status.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

_DESCRIPTION = """\
Stochastic and Bayesian layers for Keras 3.

Start with `tfvn quickstart`: in under a minute it trains a network whose
weights are pure noise, and shows that it knows when it does not know.
"""

_EXAMPLES = """\
examples:
  tfvn quickstart               train on the digits inside the package
  tfvn quickstart --epochs 5    the same, shorter and less accurate
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
network is less sure of inputs unlike those it was trained on.
"""

_QUICKSTART_EXAMPLES = """\
examples:
  tfvn quickstart
  tfvn quickstart --epochs 5 --seed 1
"""


class CommandError(Exception):
    """A mistake of the user's that one line explains and no traceback helps with."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the `tfvn` command.

    Args:
        argv: Arguments without the program's name; `None` takes them from the
            command line.

    Returns:
        The exit status: 0, 2 for a mistake in the arguments, 130 after Ctrl-C.
    """
    parser = _build_parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    try:
        return arguments.run(arguments)
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
        type=_integer_from(0),
        default=0,
        metavar="N",
        help="fixes initial weights, shuffling and noise (default: %(default)s)",
    )
    parser.set_defaults(run=_run_quickstart)


def _run_quickstart(arguments: argparse.Namespace) -> int:
    from tfvn.quickstart import run

    run(epochs=arguments.epochs, seed=arguments.seed)
    return 0


def _integer_from(smallest: int):
    """Returns a converter, for `type=`, to integers of at least `smallest`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = smallest - 1
        if value < smallest:
            raise argparse.ArgumentTypeError(
                f"expected an integer of at least {smallest}. Received: {text!r}"
            )
        return value

    return convert


def _versions() -> str:
    stack = ("tensorflow", "keras", "tensorflow-probability")
    return f"tfvn {_version('tfvn')} (" + (
        ", ".join(f"{name} {_version(name)}" for name in stack) + ")"
    )


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        # A source tree that was not installed, or TensorFlow under another name
        # (tensorflow-cpu): both run, neither has a version to show.
        return "(not installed)"
