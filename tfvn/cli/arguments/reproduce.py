"""The arguments of `tfvn reproduce`, and the list of experiments.

The command runs this file before it imports TensorFlow, so that the list, and the answer
that something is missing, take no time. So what is listed is read from the text of the
experiments' files.
"""

import argparse
import ast
import difflib
import importlib.util
import json
import pathlib
import textwrap
from collections.abc import Iterator
from typing import Any

from _tfvn_command import CommandError, integer_from

_PACKAGE = pathlib.Path(__file__).parents[2]
_EXPERIMENTS = _PACKAGE / "experiments"
_OUTPUT = pathlib.Path("results")

HELP = "run an experiment of a paper, or list the experiments"

DESCRIPTION = """\
Run an experiment of a paper, and compare what comes out with what the paper
reports. Without a name, list the experiments.

A run prints its progress, and ends with a table: each claim, the paper's
figures, ours, and a verdict (reproduced, in direction, contradicted, not run).
It writes result.json and images to DIR/NAME. If it is interrupted, the same
command with --resume continues after the last epoch, to the same figures.
"""

EXAMPLES = """\
examples:
  tfvn reproduce                           list the experiments
  tfvn reproduce toy                       run one as it fits two cores
  tfvn reproduce lenet5-variance --quick   check that it runs, in 20 seconds
  tfvn reproduce lenet5-variance --full    run as long as the paper did
  tfvn reproduce lenet5-variance --resume  continue an interrupted run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments to the parser of the command."""
    parser.add_argument(
        "name", nargs="?", type=_known_name, metavar="NAME", help="an experiment"
    )
    forms = parser.add_mutually_exclusive_group()
    for form, text in (
        ("quick", "a check that the experiment runs, in about 20 seconds"),
        ("full", "as long as in the paper, which may take days without a GPU"),
    ):
        forms.add_argument(
            f"--{form}", dest="form", action="store_const", const=form, help=text
        )
    parser.add_argument(
        "--seeds",
        type=integer_from(1),
        metavar="N",
        help="train every network N times, with the seeds 0 to N - 1 "
        "(default: as the experiment says)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted run"
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=_OUTPUT,
        metavar="DIR",
        help="directory of all results (default: %(default)s)",
    )
    parser.set_defaults(form="default", at_once=_answer_at_once)


def known_experiments() -> dict[str, dict[str, Any]]:
    """Returns what the files of the experiments say about them, by name."""
    found = {}
    for path in sorted(_EXPERIMENTS.glob("*.py")):
        for call in _calls(path, "Experiment"):
            facts = {}
            for keyword in call.keywords:
                if keyword.arg in ("name", "paper", "claim", "data", "minutes"):
                    facts[keyword.arg] = ast.literal_eval(keyword.value)
            found[facts["name"]] = facts
    return found


def listing(output: pathlib.Path = _OUTPUT) -> list[str]:
    """Returns the lines of the list of experiments.

    Args:
        output: The directory of all results.
    """
    is_there = _data_places().is_there
    lines = []
    for name, facts in sorted(known_experiments().items()):
        data = [x if is_there(x) else f"{x} (not here)" for x in facts["data"]]
        head = (
            f"{name:<26}{facts['minutes']:>4} min   data: {', '.join(data) or 'none'}"
        )
        text = f"{facts['paper']}. {facts['claim']}"
        lines += [head, *textwrap.wrap(text, 76, **_INDENTED)]
        lines += textwrap.wrap(
            f"Last result: {_last_result(output / name)}", 76, **_INDENTED
        )
        lines.append("")
    lines.append("Run one with `tfvn reproduce NAME`; minutes are those of two cores.")
    return lines


_INDENTED: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


def _calls(path: pathlib.Path, function: str) -> Iterator[ast.Call]:
    """Yields the calls of a function at the top of a file, in assignments."""
    for statement in ast.parse(path.read_text("utf-8")).body:
        call = getattr(statement, "value", None)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == function:
            yield call


def _data_places() -> Any:
    """Loads the module that knows where data are, without the package around it."""
    path = _PACKAGE / "utils" / "data_places.py"
    spec = importlib.util.spec_from_file_location("_tfvn_data_places", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _last_result(folder: pathlib.Path) -> str:
    """Returns what came out of the longest run in a folder."""
    for form in ("full", "default"):
        place = folder if form == "default" else folder / form
        if (place / "result.json").is_file():
            try:
                result = json.loads((place / "result.json").read_text("utf-8"))
            except ValueError:
                return f"{place / 'result.json'} is damaged"
            minutes = result["seconds"] / 60
            seeds = len(result["seeds"])
            return (
                f"{result['verdict']} ({form}, {seeds} seed{'s' * (seeds > 1)}, "
                f"{minutes:.1f} min)"
            )
        if (place / "settings.json").is_file():
            return f"interrupted; continue with --resume ({form})"
    return "none yet"


def _answer_at_once(name: str | None, output: pathlib.Path, **others: Any) -> bool:
    """Lists the experiments if there is no name, and returns whether it did.

    Raises if a library or the data of the experiment are missing.
    """
    if name is None:
        print("\n".join(listing(output)))
        return True
    data = known_experiments()[name]["data"]
    extras = {"matplotlib": ("their figures", "plots")}
    if set(data) - {"imdb"}:  # Keras reads the reviews
        extras["tensorflow_datasets"] = ("their data", "datasets")
    for module, (what, extra) in extras.items():
        if importlib.util.find_spec(module) is None:
            raise CommandError(
                f'experiments need {module} for {what}: pip install "tfvn[{extra}]"'
            )
    places = _data_places()
    for item in data:
        try:
            places.require(item)
        except ConnectionError as error:
            raise CommandError(str(error)) from error
    return False


def _known_name(name: str) -> str:
    names = sorted(known_experiments())
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise argparse.ArgumentTypeError(
        f"expected one of {', '.join(names)}{hint}. Received: {name!r}"
    )
