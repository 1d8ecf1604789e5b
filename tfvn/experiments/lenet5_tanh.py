"""Do zero-mean layers learn if nothing can turn their variances into means?

One might think that a ReLU turns the variance of an activation into a mean, which the next
layer reads. With tanh and without biases the activations of a variance layer keep mean
zero. In LeNet-5 on MNIST the second convolution, the first dense layer, or both, are
variance layers. The convolution learns: the pooling behind it is not antisymmetric. Behind
the dense layer there are only tanh and a linear layer, so for every image the logits have
the same distribution as their negatives. The cross-entropy is convex in the logits, and so
at least that of their mean, log 10: such a network cannot learn. Two networks whose batch
normalization has a beta, which breaks the symmetry, are there to compare.
"""

from typing import Any

import tfvn
from tfvn.experiments.classifiers import measure
from tfvn.experiments.experiment import (
    Claim,
    Experiment,
    Piece,
    Results,
    Table,
    judged,
    percent,
)
from tfvn.experiments.lenet5 import (
    ACCURACY_COLUMNS,
    PAPER_LENGTH,
    QUICK,
    SETTINGS,
    accuracy_cells,
    compile_lenet5,
    draw_training,
    lenet5,
    mnist,
)
from tfvn.experiments.training import train

# Table 3 of the paper: one sample and ensemble.
PAPER = {
    "deterministic": (0.994, 0.994),
    "conv2": (0.988, 0.994),
    "dense1": (0.988, 0.992),
    "conv2 and dense1": (0.932, 0.975),
}
# Networks with a beta, and the row of the paper that each is compared with.
WITH_BETA = {f"{row}, with beta": row for row in ("dense1", "conv2 and dense1")}

# An ensemble accuracy that shows that a network has learned.
LEARNED = 0.9


def network(name: str) -> tfvn.Sequential:
    """Returns LeNet-5 with tanh, no biases, and variance layers at the named places."""
    layers: dict[str, Any] = {}
    if "conv2" in name:
        layers["conv2"] = tfvn.VarianceConv2D(50, 5, use_bias=False)
    if "dense1" in name:
        layers["dense1"] = tfvn.VarianceDense(500, use_bias=False)
    # The beta of batch normalization is a bias.
    return lenet5(activation="tanh", center=name in WITH_BETA, **layers)


def run(piece: Piece) -> dict[str, Any]:
    """Trains one network and measures it."""
    data, test = mnist(piece.settings)
    model = network(piece.configuration)
    compile_lenet5(model, data, piece)
    history = train(model, data, piece)
    is_random = piece.configuration != "deterministic"
    return {
        "accuracy": measure(model, test, is_random=is_random),
        "history": {"accuracy": history["accuracy"]},
    }


def judge(results: Results) -> list[Claim]:
    """Compares the rows with each other, as in table 3."""
    names = [*PAPER, *WITH_BETA]
    found = {n: results.mean(n, "accuracy", "batch", "ensemble") for n in names}
    paper = ", ".join(f"{name} {percent(v[1])}" for name, v in PAPER.items())

    def claims(where: str, dense1: str, both: str) -> list[Claim]:
        rows = ("deterministic", "conv2", dense1, both)
        shown = ", ".join(f"{name} {percent(found[name])}" for name in rows)
        plain, *single, last = (found[name] for name in rows)
        gap = plain - min(single)
        has_learned = last >= LEARNED
        return [
            Claim(
                f"{where}, one variance layer costs next to nothing",
                paper,
                shown,
                judged(gap <= 0.004, gap <= 0.01, [plain, *single]),
            ),
            Claim(
                f"{where}, two variance layers in a row cost something",
                paper,
                shown,
                judged(
                    has_learned and last < min(plain, *single),
                    has_learned and last < plain,
                    [plain, *single, last],
                ),
            ),
        ]

    return [
        *claims("Without any bias", "dense1", "conv2 and dense1"),
        *claims("With a beta in batch normalization", *WITH_BETA),
    ]


def table(results: Results) -> Table:
    """Returns table 3, ours beside the paper's, in both modes of batch normalization."""
    rows = []
    for name in [*PAPER, *WITH_BETA]:
        paper = PAPER[WITH_BETA.get(name, name)]
        rows.append([name, *map(percent, paper), *accuracy_cells(results, name)])
    header = ["variance layers", "paper, 1 sample", "ensemble"]
    return Table([*header, *ACCURACY_COLUMNS], rows)


EXPERIMENT = Experiment(
    name="lenet5-tanh",
    paper="Neklyudov et al. (2019), table 3",
    claim="Variance layers learn with antisymmetric activations and without biases, where "
    "the activations of a variance layer have mean zero.",
    data=("mnist",),
    minutes=25,
    settings={
        "default": {**SETTINGS, "epochs": 15},
        "quick": {
            **QUICK,
            "configurations": ["deterministic", "conv2 and dense1"],
        },
        "full": PAPER_LENGTH,
    },
    configurations=(*PAPER, *WITH_BETA),
    run=run,
    judge=judge,
    table=table,
    draw=draw_training,
    notes="A beta of batch normalization is a bias. Without one, a variance layer as first "
    "dense layer makes the logits of every image as likely as their negatives, so that their "
    "mean cross-entropy is at least log 10, that of a guess: the paper's figures for these "
    "rows need some bias, and the paper does not say whether its batch normalization had "
    "one. The rows are judged with batch normalization by the statistics of each batch, as "
    "the authors evaluated.",
)
