"""Gaussian dropout with a log-uniform prior has no posterior to approximate.

Logistic regression with one weight and one observation, x = 1 and y = 1. The log-uniform
prior is improper; truncated to `1/B <= |w| <= B` it can be integrated. If there were a
posterior, its normalizer (the evidence) would settle as the bounds widen. It grows for ever,
and what the truncated posterior says about the weight depends on how the bounds widen. With
a proper prior nothing of this happens.
"""

from typing import Any

import numpy as np
from tensorflow_probability import distributions as tfd

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
)

PRIORS = ("log-uniform", "Normal", "Cauchy")
# How far the lower and the upper bound go, as powers of B.
ROUTES = {"1/B, B": (1, 1), "1/B^2, B": (2, 1), "1/B, B^2": (1, 2)}


def prior_of(name: str) -> tfd.Distribution:
    """Returns a prior in float64; the log-uniform one is `1 / |w|`, not normalized."""
    if name == "log-uniform":
        return tfvn.distributions.LogUniform(dtype="float64")
    law = tfd.Normal if name == "Normal" else tfd.Cauchy
    return law(np.float64(0.0), np.float64(1.0))


def mass(prior: tfd.Distribution, low: float, high: float, points: int) -> Any:
    """Returns the integrals of prior times likelihood over [-high, -low] and [low, high].

    Args:
        prior: The prior.
        low: The smallest absolute weight.
        high: The largest absolute weight.
        points: The number of points of the trapezoidal rule for each factor of 10.
    """
    count = int(points * np.log10(high / low)) + 2
    log_weight = np.linspace(np.log(low), np.log(high), count)
    weight = np.exp(log_weight)
    parts = []
    for signed in (-weight, weight):
        likelihood = 0.5 * (1.0 + np.tanh(0.5 * signed))
        # The factor `weight` is because the integral is over its logarithm.
        heights = np.exp(prior.log_prob(signed).numpy()) * likelihood * weight
        steps = np.diff(log_weight)
        parts.append(float(np.sum(0.5 * (heights[1:] + heights[:-1]) * steps)))
    return np.array(parts)


def run(piece: Piece) -> dict[str, Any]:
    """Computes the evidence and the posterior of |w| < 1 for widening bounds."""
    prior, points = prior_of(piece.configuration), piece.settings["points"]
    decades = np.arange(1, piece.settings["decades"] + 1)
    near, left, right = [], [], []
    for decade in decades:
        near.append(mass(prior, 10.0**-decade, 1.0, points).sum())
        tails = mass(prior, 1.0, 10.0**decade, points)
        left.append(tails[0])
        right.append(tails[1])
    last = float(decades[-1])
    routes = {}
    for name, (lower, upper) in ROUTES.items():
        inside = mass(prior, 10.0 ** (-lower * last), 1.0, points).sum()
        outside = mass(prior, 1.0, 10.0 ** (upper * last), points).sum()
        routes[name] = inside / (inside + outside)
    return {
        "decades": decades,
        "near_zero": near,
        "left_tail": left,
        "right_tail": right,
        "evidence": np.add(near, left) + right,
        "probability_below_one": routes,
    }


def step(results: Results, prior: str, key: str, index: int = -1) -> float:
    """Returns how much a figure grew in a widening of the bounds, usually the last."""
    values = results.first(prior, key)
    return float(np.diff(values)[index]) if values else float("nan")


def spread(results: Results, prior: str) -> float:
    """Returns how far the answers of the three routes are apart."""
    answers = results.first(prior, "probability_below_one")
    return max(answers.values()) - min(answers.values()) if answers else float("nan")


def judge(results: Results) -> list[Claim]:
    """Compares with section 2 of the paper."""
    improper, proper = PRIORS[0], PRIORS[1:]
    growth, first = (step(results, improper, "evidence", at) for at in (-1, 1))
    near, tail = (step(results, improper, key) for key in ("near_zero", "right_tail"))
    settled = [abs(step(results, p, "evidence")) for p in proper]
    answers = results.first(improper, "probability_below_one") or {}
    spreads = [spread(results, p) for p in proper]
    of_improper = spread(results, improper)
    decade = float(np.log(10.0))
    return [
        Claim(
            "The evidence is infinite",
            "infinite",
            f"grows by {number(first, 4)} to {number(growth, 4)} for each factor of 10",
            judged(abs(growth - 2 * decade) < 0.01, growth > 0.1, [growth, first]),
        ),
        Claim(
            "Both the neighbourhood of zero and the tail have infinite mass",
            "infinite around zero and in the right tail",
            f"grow by {number(near, 4)} and {number(tail, 4)} for the last factor of 10",
            judged(
                max(abs(near - decade), abs(tail - decade)) < 0.01,
                max(near, tail) > 0.1,
                [near, tail],
            ),
        ),
        Claim(
            "Inference with this prior is ill-posed",
            "undefined or incoherent",
            "P(|w| < 1) is "
            + ", ".join(
                f"{number(value, 3)} for bounds {name}"
                for name, value in answers.items()
            ),
            judged(of_improper > 0.1, of_improper > 0.01, [of_improper]),
        ),
        Claim(
            "A proper prior has none of this",
            "no claim",
            f"the evidence changes by at most {max(settled):.1e}, P(|w| < 1) by "
            f"{max(spreads):.1e}",
            judged(
                max(settled) < 1e-3 and max(spreads) < 1e-2,
                max(settled) < 1e-2,
                [*settled, *spreads],
            ),
        ),
    ]


def table(results: Results) -> Table:
    """Returns the evidence for widening bounds."""
    decades = results.first(PRIORS[0], "decades")
    shown = [i for i, d in enumerate(decades) if d == 1 or d % 2 == 0]
    rows = []
    for prior in PRIORS:
        evidence = results.first(prior, "evidence")
        rows.append([prior, *(number(evidence[i], 4) for i in shown)])
    return Table(["evidence for B =", *(f"1e{decades[i]}" for i in shown)], rows)


def draw(results: Results, save: Save) -> None:
    """Draws the evidence against the bounds."""
    curves = {
        prior: (
            10.0 ** np.array(results.first(prior, "decades"), "float64"),
            results.first(prior, "evidence"),
        )
        for prior in PRIORS
    }
    axes = tfvn.plots.curves(
        curves, xlabel="bound B of the prior", ylabel="evidence", xscale="log"
    )
    save("evidence", axes)


EXPERIMENT = Experiment(
    name="not-bayesian",
    paper="Hron et al. (2017), section 2",
    claim="The log-uniform prior gives logistic regression no proper posterior.",
    data=(),
    minutes=1,
    settings={
        "default": {"seeds": 1, "decades": 12, "points": 20_000},
        "quick": {"decades": 6, "points": 2_000},
        "full": {"decades": 30},
    },
    configurations=PRIORS,
    run=run,
    judge=judge,
    table=table,
    draw=draw,
    notes="The log-uniform prior is 1 / |w|; any other constant multiplies its evidence.",
)
