"""Variance layers with random signs or uniform weights instead of Gaussian ones.

LeNet-5 on MNIST whose first dense layer has weights `scale * noise`, where the noise is
Gaussian, a random sign, or uniform. Only Gaussian weights have an exact local
reparameterization; the others draw one kernel for each batch ("weights"), or change its
signs from example to example ("flipout").
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

LAYERS = {
    "gaussian, local": ("gaussian", "local"),
    "bernoulli, weights": ("bernoulli", "weights"),
    "bernoulli, flipout": ("bernoulli", "flipout"),
    "uniform, weights": ("uniform", "weights"),
    "uniform, flipout": ("uniform", "flipout"),
}
PAPER = {"gaussian": 0.993, "bernoulli": 0.987, "uniform": 0.987}


def run(piece: Piece) -> dict[str, Any]:
    """Trains one network and measures it."""
    data, test = mnist(piece.settings)
    noise, estimator = LAYERS[piece.configuration]
    layer = tfvn.VarianceDense(500, use_bias=False, noise=noise, estimator=estimator)
    model = lenet5(dense1=layer)
    compile_lenet5(model, data, piece)
    history = train(model, data, piece)
    return {
        "accuracy": measure(model, test),
        "history": {"accuracy": history["accuracy"]},
    }


def judge(results: Results) -> list[Claim]:
    """Compares with the accuracies that section 3.3 reports."""
    found = {n: results.mean(n, "accuracy", "batch", "ensemble") for n in LAYERS}
    gaussian = found["gaussian, local"]
    claims = []
    for noise in ("bernoulli", "uniform"):
        # We take it that the authors drew kernels; flipout is in the table.
        ours = found[f"{noise}, weights"]
        claims.append(
            Claim(
                f"{noise.capitalize()} weights learn too, a little worse than Gaussian",
                f"{percent(PAPER[noise])}, Gaussian {percent(PAPER['gaussian'])}",
                ", Gaussian ".join(
                    results.text(percent, name, "accuracy", "batch", "ensemble")
                    for name in (f"{noise}, weights", "gaussian, local")
                ),
                judged(
                    abs(ours - PAPER[noise]) <= 0.005 and ours < gaussian,
                    ours < gaussian,
                    [ours, gaussian],
                ),
            )
        )
    return claims


def table(results: Results) -> Table:
    """Returns the accuracies in both modes of batch normalization."""
    rows = []
    for name, (noise, _) in LAYERS.items():
        rows.append([name, percent(PAPER[noise]), *accuracy_cells(results, name)])
    return Table(["noise, estimator", "paper", *ACCURACY_COLUMNS], rows)


EXPERIMENT = Experiment(
    name="lenet5-noise",
    paper="Neklyudov et al. (2019), section 3.3",
    claim="Variance layers with Bernoulli or uniform weights learn as well, with a little "
    "less accuracy because they have no local reparameterization.",
    data=("mnist",),
    minutes=15,
    settings={
        "default": {**SETTINGS, "epochs": 15},
        "quick": {
            **QUICK,
            "configurations": ["bernoulli, weights", "uniform, flipout"],
        },
        "full": PAPER_LENGTH,
    },
    configurations=tuple(LAYERS),
    run=run,
    judge=judge,
    table=table,
    draw=draw_training,
    notes="The paper does not say how many samples its figures average; ours have 20, with "
    "batch normalization by the statistics of each batch. A claim is reproduced if our "
    "accuracy is within 0.5 points of the paper's, and below that of Gaussian weights.",
)
