"""The arguments of `tfvn inspect`."""

import argparse
import pathlib

HELP = "show what is in an export or a saved model"

DESCRIPTION = """\
Show what is in a saved model.

For an export of `tfvn.export_ensemble`, or the newest version in a directory
of exports: its signatures with names, types and shapes, the number of draws,
the posteriors of its layers, and the other versions. For a `.keras` file: the
posteriors of its layers, their KL, and how certain their weights are, as
`tfvn.summary` shows them.
"""

EXAMPLES = """\
examples:
  tfvn inspect saved_models/digits
  tfvn inspect saved_models/digits/3
  tfvn inspect model.keras
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments to the parser of the command."""
    parser.add_argument(
        "path",
        type=pathlib.Path,
        metavar="PATH",
        help="an export, a directory of exports, or a .keras file",
    )
