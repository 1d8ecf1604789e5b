"""The arguments of `tfvn report`."""

import argparse
import pathlib

from _tfvn_command import add_seed, integer_from

HELP = "write a page on how good and how certain a saved model is"

DESCRIPTION = """\
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

EXAMPLES = """\
examples:
  tfvn report model.keras --data digits
  tfvn report model.keras --data mnist --ood fashion_mnist -o mnist.html
  tfvn report model.keras --data test.npz --num-samples 50 --limit 500
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments to the parser of the command."""
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
        type=integer_from(1),
        default=20,
        metavar="N",
        help="draws of the noise for each example (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=integer_from(1),
        default=2000,
        metavar="N",
        help="use at most N examples, chosen at random (default: %(default)s)",
    )
    add_seed(parser, "fixes the noise and the choice of examples", 0)
    parser.add_argument(
        "--outputs",
        default="auto",
        metavar="KIND",
        help="what the outputs are, if the saved model does not tell: logits, "
        "probabilities, normal, ... as in `tfvn.ensemble_predict`",
    )
