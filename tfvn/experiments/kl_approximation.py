"""How wrong the usual approximation of the KL to the log-uniform prior is.

Molchanov et al. (2017) approximate the KL from Gaussian dropout to the log-uniform prior by
a sigmoid and a softplus of log alpha. Hron et al. (2017) found the exact form. The largest
errors of the approximation and of its gradient are measured on a fine grid.
"""

from typing import Any

import numpy as np
import tensorflow as tf

import tfvn
from tfvn.experiments.experiment import (
    Claim,
    Experiment,
    Piece,
    Results,
    Save,
    Table,
    judged,
    number,
    percent,
)

ERRORS = {
    "absolute": "largest absolute error, nats",
    "relative": "largest relative error",
    "gradient": "largest relative error of the gradient",
}


def exact(log_alpha: tf.Tensor) -> tf.Tensor:
    """Returns the exact KL of a weight with mean 1 and variance alpha."""
    return tfvn.kl.log_uniform_exact(tf.ones_like(log_alpha), tf.exp(0.5 * log_alpha))


def with_gradient(function: Any, log_alpha: np.ndarray) -> tuple[Any, Any]:
    """Returns the values of a function of log alpha, and its derivatives."""
    x = tf.constant(log_alpha)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = function(x)
    return values.numpy(), tape.gradient(values, x).numpy()


def run(piece: Piece) -> dict[str, Any]:
    """Measures the errors on a grid of log alphas."""
    limit, count = piece.settings["limit"], piece.settings["points"]
    grid = np.linspace(-limit, limit, count)  # float64
    true, slope = with_gradient(exact, grid)
    approximate, other_slope = with_gradient(tfvn.kl.log_uniform_molchanov, grid)
    errors = {
        "absolute": np.abs(approximate - true),
        "relative": np.abs(approximate / true - 1.0),
        "gradient": np.abs(other_slope / slope - 1.0),
    }
    every = slice(None, None, max(1, count // 400))
    figures: dict[str, Any] = {
        name: {"largest": error.max(), "log_alpha": grid[error.argmax()]}
        for name, error in errors.items()
    }
    figures["curves"] = {
        "log_alpha": grid[every],
        "exact_gradient": slope[every],
        "approximate_gradient": other_slope[every],
        "error": (approximate - true)[every],
        **{name: error[every] for name, error in errors.items()},
    }
    figures["share_of_falling_steps"] = float((np.diff(true) < 0).mean())
    return figures


def judge(results: Results) -> list[Claim]:
    """Judges the approximation; no paper reports these errors."""
    largest = {n: results.mean("grid", n, "largest") for n in ERRORS}
    places = {n: results.mean("grid", n, "log_alpha") for n in ERRORS}
    falls = results.mean("grid", "share_of_falling_steps")
    return [
        Claim(
            "The KL falls with alpha, so alpha grows where the data allow it",
            "falls everywhere (Hron et al., remark 2)",
            f"falls in {percent(falls)} of the steps of the grid",
            judged(falls == 1.0, falls > 0.99, [falls]),
        ),
        Claim(
            "Molchanov's approximation of the KL is accurate",
            "accurate (Neklyudov et al., section 4.2), without a figure",
            "; ".join(
                f"{text} {number(largest[n], 4)} at log alpha {number(places[n], 2)}"
                for n, text in ERRORS.items()
            ),
            judged(
                largest["absolute"] < 0.01
                and max(largest["relative"], largest["gradient"]) < 0.05,
                largest["absolute"] < 0.05,
                largest.values(),
            ),
        ),
    ]


def table(results: Results) -> Table:
    """Returns the largest errors and where they are."""
    rows = [
        [
            text,
            number(results.mean("grid", name, "largest"), 5),
            number(results.mean("grid", name, "log_alpha"), 2),
        ]
        for name, text in ERRORS.items()
    ]
    return Table(["", "error", "at log alpha"], rows)


def draw(results: Results, save: Save) -> None:
    """Draws the KL of several priors (figure 2 of Neklyudov et al.) and the errors."""
    save("kl_of_priors", tfvn.plots.kl_of_priors())
    curves = results.first("grid", "curves")
    x = curves["log_alpha"]
    save(
        "error",
        tfvn.plots.curves(
            {"approximation minus exact": (x, curves["error"])},
            xlabel="log alpha",
            ylabel="error, nats per weight",
        ),
    )
    save(
        "gradient",
        tfvn.plots.curves(
            {
                "exact": (x, curves["exact_gradient"]),
                "approximation": (x, curves["approximate_gradient"]),
            },
            xlabel="log alpha",
            ylabel="gradient of the KL, nats per weight",
        ),
    )
    save(
        "relative_errors",
        tfvn.plots.curves(
            {"KL": (x, curves["relative"]), "gradient": (x, curves["gradient"])},
            xlabel="log alpha",
            ylabel="relative error",
        ),
    )


EXPERIMENT = Experiment(
    name="kl-approximation",
    paper="Hron et al. (2017), remarks 1 and 2; Neklyudov et al. (2019), figure 2",
    claim="The KL to the log-uniform prior falls with alpha, and its usual approximation is "
    "close.",
    data=(),
    minutes=1,
    settings={
        "default": {"seeds": 1, "limit": 12.0, "points": 240_001},
        "quick": {"points": 24_001},
        "full": {"points": 2_400_001},
    },
    configurations=("grid",),
    run=run,
    judge=judge,
    table=table,
    draw=draw,
    notes="Both forms have the constant with which the KL goes to zero as alpha grows; with "
    "another constant the absolute error would differ.",
)
