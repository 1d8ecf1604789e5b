"""Zero-mean layers learn even if nothing can turn their variances into means.

One might think that a ReLU turns the variance of an activation into a mean, which the next
layer reads. With tanh and without biases the activations of a variance layer keep mean
zero. LeNet-5 on MNIST with variance layers as second convolution, first dense layer, or
both, learns all the same.
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


def network(name: str) -> tfvn.Sequential:
    """Returns LeNet-5 with tanh, no biases, and variance layers at the named places."""
    layers: dict[str, Any] = {}
    if "conv2" in name:
        layers["conv2"] = tfvn.VarianceConv2D(50, 5, use_bias=False)
    if "dense1" in name:
        layers["dense1"] = tfvn.VarianceDense(500, use_bias=False)
    # The beta of batch normalization would be a bias.
    return lenet5(activation="tanh", center=False, **layers)


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
    rows = {n: results.mean(n, "accuracy", "batch", "ensemble") for n in PAPER}
    plain, conv2, dense1, both = rows.values()
    gap = max(plain - conv2, plain - dense1)
    shown = ", ".join(f"{name} {percent(value)}" for name, value in rows.items())
    paper = ", ".join(f"{name} {percent(v[1])}" for name, v in PAPER.items())
    return [
        Claim(
            "One variance layer costs next to nothing",
            paper,
            shown,
            judged(gap <= 0.004, gap <= 0.01, [plain, conv2, dense1]),
        ),
        Claim(
            "Two variance layers in a row cost something",
            paper,
            shown,
            judged(
                both < min(plain, conv2, dense1),
                both < plain,
                [plain, conv2, dense1, both],
            ),
        ),
    ]


def table(results: Results) -> Table:
    """Returns table 3, ours beside the paper's, in both modes of batch normalization."""
    rows = []
    for name, paper in PAPER.items():
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
    configurations=tuple(PAPER),
    run=run,
    judge=judge,
    table=table,
    draw=draw_training,
    notes="Batch normalization has no beta, which would be a bias. The rows are judged with "
    "batch normalization by the statistics of each batch, as the authors evaluated.",
)
