"""The arguments of `tfvn quickstart`."""

import argparse

from _tfvn_command import add_seed, integer_from

HELP = "train a variance network on digits and show its uncertainty"

DESCRIPTION = """\
Train a variance network on 8x8 digits that come with the package, with plain
`keras.Sequential` and `model.fit`. It downloads nothing.

It prints the test accuracy with three kinds of prediction:
  mean weights   every weight is at its mean, zero: a random guess
  one sample     one draw of the weights, as in training
  20 samples     the average over 20 draws, which is better than one

It also prints the uncertainty (the entropy of the prediction, and the mutual
information, which is how far the draws disagree) for digits, turned and
inverted digits, and noise: on average, the network is less certain about images
that differ from its training data. At the end it exports the ensemble for
TensorFlow Serving, loads the export and calls it.
"""

EXAMPLES = """\
examples:
  tfvn quickstart
  tfvn quickstart --epochs 5 --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments to the parser of the command."""
    parser.add_argument(
        "--epochs",
        type=integer_from(1),
        default=40,
        metavar="N",
        help="number of training epochs (default: %(default)s)",
    )
    add_seed(parser, "seed of the initial weights, the shuffling and the noise", 0)
    parser.add_argument(
        "--export",
        default="saved_models/digits",
        metavar="PATH",
        help="directory to export to; every run adds a new version "
        "(default: %(default)s)",
    )
