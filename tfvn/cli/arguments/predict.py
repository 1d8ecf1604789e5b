"""The arguments of `tfvn predict`."""

import argparse
import pathlib

from _tfvn_command import add_seed, integer_from

HELP = "predict with an export, without a server"

DESCRIPTION = """\
Predict with an export of `tfvn.export_ensemble`, without a server. It shows
the most likely classes of each row with their probabilities and standard
deviations, or the numbers that the model predicts, and how certain they are.

The rows come from one of:
  FILE.csv       a line for each row, with or without a header; the columns are
                 the values of the input in order, or inputs by their names
  FILE.npy       an array, the first axis of which are the rows
  FILE.npz       an array for each input by its name, or one array
  FILE.png|jpg   one image
  FOLDER         the .png and .jpg images in it, in the order of their names

Numbers are converted to the type of the export's input if that changes no
value, and images to its number of channels. Pixels are scaled as --pixels says.
Strings in arrays must have NumPy's string type, and not be Python objects.
"""

EXAMPLES = """\
examples:
  tfvn predict saved_models/irises --input irises.csv
  tfvn predict saved_models/digits --input scans/ --pixels 0..1 --top 2
  tfvn predict saved_models/digits --input images.npy --seed 1 -o answer.csv
  tfvn predict saved_models/digits --input test.npz --key x --format json
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
        help="a .csv, .npy, .npz, .png or .jpg file, or a folder of images",
    )
    parser.add_argument(
        "--key",
        metavar="NAME",
        help="the array of a .npz file with several arrays, for a model with one input",
    )
    parser.add_argument(
        "--pixels",
        choices=["0..1", "0..255", "-1..1"],
        metavar="RANGE",
        help="what the pixels of images are scaled to, as in training: 0..1, 0..255, "
        "or --pixels=-1..1",
    )
    parser.add_argument(
        "--signature",
        metavar="NAME",
        help="signature to call (default: serving_default, or seeded if --seed is given)",
    )
    add_seed(parser, "seed that makes the answer repeatable", None)
    parser.add_argument(
        "--top",
        type=integer_from(1),
        default=3,
        metavar="N",
        help="show the N most likely classes (default: %(default)s)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--format",
        choices=["table", "csv", "json"],
        default="table",
        help="how to print the answer; a table has the first rows only "
        "(default: %(default)s)",
    )
    where.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="a .csv, .json or .npz file to write the whole answer to, instead of "
        "printing it; an existing file is replaced",
    )
