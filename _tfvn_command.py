"""The `tfvn` command, which reads its arguments before it imports TensorFlow.

This module is outside the package on purpose. Importing anything of `tfvn` runs
`tfvn/__init__.py`, which imports TensorFlow and takes seconds. This module prints help and
errors in the arguments at once; then it imports the function `run` of
`tfvn/cli/<command>.py` and calls it with the arguments by name.

The arguments of a command are in `tfvn/cli/arguments/<command>.py`. A new command consists
of these two files, and of its name in `COMMANDS`. What a command can answer without
TensorFlow is a function that its parser has as the default of `at_once`.

The command hides TensorFlow's log lines. `TF_CPP_MIN_LOG_LEVEL=0 python -m tfvn ...` shows
all of them.
"""

import argparse
import contextlib
import importlib
import os
import pathlib
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any, NoReturn

# In the order of the help.
COMMANDS = ("quickstart", "inspect", "predict", "report", "reproduce")

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
        with quiet_tensorflow(at_any_level=True):
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
def quiet_tensorflow(at_any_level: bool = False) -> Iterator[None]:
    """Hides TensorFlow's log lines, and nothing else, during imports inside the context.

    TensorFlow logs while its libraries load (one line per library for a missing GPU
    driver), before its logger reads `TF_CPP_MIN_LOG_LEVEL`; no variable stops these
    lines. It writes them to the file descriptor, not to `sys.stderr`.

    Args:
        at_any_level: Whether to set `TF_CPP_MIN_LOG_LEVEL` to 3, which also hides the lines
            after the import. Otherwise, if the variable is set, lines that it allows are
            shown.
    """
    if at_any_level:
        os.environ[_LOG_LEVEL] = "3"
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
    for command in COMMANDS:
        told = _arguments_of(command)
        subparser = commands.add_parser(
            command,
            help=told["HELP"],
            description=told["DESCRIPTION"],
            epilog=told["EXAMPLES"],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        told["add_arguments"](subparser)
    return parser


def _arguments_of(command: str) -> dict[str, Any]:
    """Returns the names in the file with the arguments of a command.

    The file is run by its path, because an import by its name would import the packages
    around it first, and TensorFlow with them.
    """
    folder = pathlib.Path(__file__).with_name("tfvn") / "cli" / "arguments"
    return runpy.run_path(str(folder / f"{command}.py"))


class _Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfvn: error: {message} (see `{self.prog} --help`)\n")


def add_seed(parser: Any, meaning: str, default: int | None) -> None:
    """Adds the option `--seed`.

    Args:
        parser: The parser of a command.
        meaning: What the seed is for.
        default: The seed if none is given; `None` is fresh noise.
    """
    usual = "fresh noise" if default is None else default
    parser.add_argument(
        "--seed",
        type=integer_from(0, _LARGEST_SEED),
        default=default,
        metavar="N",
        help=f"{meaning}, from 0 to {_LARGEST_SEED} (default: {usual})",
    )


def integer_from(smallest: int, largest: int | None = None) -> Callable[[str], int]:
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
