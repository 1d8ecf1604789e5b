"""The arguments of `tfvn predict`."""

import argparse
import pathlib

from _tfvn_command import add_seed

HELP = "predict with an export, without a server"

DESCRIPTION = """\
Predict with an export of `tfvn.export_ensemble`, without a server. The rows
come from a `.npy` file or, for a model with several inputs, from a `.npz` file
with one array for each input name. Numbers are converted to the type of the
export's input if that changes no value. Strings must be in arrays of NumPy's
string type, not of Python objects.
"""

EXAMPLES = """\
examples:
  tfvn predict saved_models/digits --input images.npy
  tfvn predict saved_models/digits --input images.npy --seed 1
  tfvn predict saved_models/digits --input images.npy \\
      --signature samples --output samples.npz
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments to the parser of the command."""
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
    add_seed(parser, "seed that makes the answer repeatable", None)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="a .npz file to write the whole answer to; an existing file is replaced "
        "(default: print the first rows)",
    )
