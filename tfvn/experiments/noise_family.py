"""Multiplicative noise is a prior: five kinds of noise, checked by sampling.

Noise xi times a Normal weight is a weight with a random variance xi^2. For each kind of
noise, Kolmogorov-Smirnov tests compare samples of xi^2 with the named prior of the variance,
and samples of the weight with the named prior of the weight. The second part asks which
moments are finite, on which the Jensen gap of the training objective depends.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
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
)

SCALE = 0.7  # standard deviation of the Normal weight

# Table 1 of the paper: the names of the priors of the variance and of the weight.
PAPER = {
    "bernoulli": ("Bernoulli", "spike and slab"),
    "gaussian": ("chi-square", "generalized hyperbolic"),
    "rayleigh": ("exponential", "Laplace"),
    "inverse_nakagami": ("inverse gamma", "Student-t"),
    "half_cauchy": ("unnamed", "horseshoe"),
}

# What the text says about figure 1: the claim, the paper's words, the noises, and whether
# Var[xi^-2] is finite.
MOMENTS = (
    (
        "Var[xi^-2] is infinite for Bernoulli and Rayleigh noise",
        "infinite for the whole range",
        ("bernoulli", "rayleigh"),
        False,
    ),
    (
        "Var[xi^-2] of inverse Nakagami noise is finite if E[xi^2] is not small",
        "asymptote at about 0.5",
        ("inverse_nakagami",),
        True,
    ),
    (
        "Var[xi^-2] of Gaussian noise is finite if E[xi^2] is not small",
        "asymptote at about 4",
        ("gaussian",),
        True,
    ),
)


def law_of(noise: str, mean_square: float = 1.0) -> tfd.Distribution:
    """Returns a noise with mean zero or none, and with a given E[xi^2] if it is finite."""
    root = math.sqrt(mean_square)
    parameters: dict[str, dict[str, float]] = {
        "bernoulli": {"keep_probability": min(mean_square, 1.0)},
        "gaussian": {"mean": 0.0, "stddev": root},
        "rayleigh": {"scale": root / math.sqrt(2.0)},
        "inverse_nakagami": {"concentration": 2.0, "spread": 2.0 / mean_square},
        "half_cauchy": {"scale": root},
    }
    return tfvn.distributions.noise_law(noise, **parameters[noise])


def variance_prior(noise: str, mean_square: float) -> Callable[[Any], Any]:
    """Returns the cumulative distribution of the prior of xi^2 that table 1 names."""
    if noise == "gaussian":
        return lambda t: tfd.Chi2(1.0).cdf(t / mean_square)
    if noise == "rayleigh":
        return tfd.Exponential(1.0 / mean_square).cdf
    if noise == "inverse_nakagami":
        return tfd.InverseGamma(2.0, mean_square).cdf
    # Half-Cauchy: the square has no name, but P(xi <= sqrt(t)).
    return lambda t: 2.0 / np.pi * tf.atan(tf.sqrt(t / mean_square))


def p_value(sample: np.ndarray, cdf: Callable[[Any], Any]) -> float:
    """Returns the p-value of a Kolmogorov-Smirnov test.

    Args:
        sample: Draws.
        cdf: The cumulative distribution that they should have.
    """
    count = len(sample)
    expected = np.asarray(cdf(np.sort(sample).astype("float32")), "float64")
    ranks = np.arange(count + 1) / count
    distance = max((ranks[1:] - expected).max(), (expected - ranks[:-1]).max())
    root = math.sqrt(count)
    argument = (root + 0.12 + 0.11 / root) * distance
    terms = [
        (-1) ** (k - 1) * math.exp(-2.0 * (k * argument) ** 2) for k in range(1, 101)
    ]
    return float(np.clip(2.0 * sum(terms), 0.0, 1.0))


def p_value_of_share(count: int, total: int, probability: float) -> float:
    """Returns the p-value of a count of successes, by its Normal approximation."""
    deviation = math.sqrt(total * probability * (1.0 - probability))
    return math.erfc(abs(count - total * probability) / deviation / math.sqrt(2.0))


def run(piece: Piece) -> dict[str, Any]:
    """Tests one kind of noise, and estimates its moments."""
    noise, count = piece.configuration, piece.settings["draws"]
    mean_square = 0.8
    law = law_of(noise, mean_square)
    rng = np.random.default_rng(piece.seed)
    xi = law.sample(count, seed=piece.seed + 1).numpy().astype("float64")
    weights = xi * rng.normal(0.0, SCALE, count)
    prior = tfvn.distributions.marginal_prior(law, SCALE)
    if noise == "bernoulli":
        # The weight is zero with some probability, and Normal otherwise.
        zeros = int((weights == 0).sum())
        tests = {
            "variance": p_value_of_share(count - zeros, count, mean_square),
            "weight": p_value(weights[weights != 0], tfd.Normal(0.0, SCALE).cdf),
        }
    else:
        tests = {
            "variance": p_value(xi**2, variance_prior(noise, mean_square)),
            "weight": p_value(weights, prior.cdf),
        }
    (moments,) = tfvn.jensen_gap([law]).rows
    return {
        "p_values": tests,
        "prior": prior.name,
        # Text, because JSON has no infinity.
        "moments": {
            "E[xi^2]": str(moments.mean_square),
            "Var[xi]": str(moments.variance),
            "Var[xi^-2]": str(moments.inverse_square_variance),
        },
        "growth": {n: str(growth_at_zero(law)) for n, law in laws_by_mean(noise)},
        "figure_1": _moments_by_mean_square(noise),
    }


def laws_by_mean(noise: str) -> list[tuple[str, tfd.Distribution]]:
    """Returns noises of one kind with several E[xi^2], by a description of them."""
    if noise == "bernoulli":
        return [(f"E[xi^2] = {value}", law_of(noise, value)) for value in (0.2, 0.8)]
    laws = [(f"E[xi^2] = {value}", law_of(noise, value)) for value in (0.8, 5.0, 8.0)]
    if noise == "gaussian":
        # The paper does not say which parameter it varies; the other one is the mean.
        for value in (5.0, 8.0):
            law = tfd.Normal(math.sqrt(value - 1.0), 1.0)
            laws.append((f"E[xi^2] = {value}, variance 1", law))
    return laws


def growth_at_zero(law: tfd.Distribution) -> float:
    """Returns by which factor E[xi^-4] grows if one more decade near zero is counted.

    It is the ratio of the parts of E[xi^-4] with |xi| > 1e-4 and with |xi| > 1e-3. If it is
    well above 1, E[xi^-4] is infinite, and with it Var[xi^-2]; if it is 1, both are finite.
    """
    if isinstance(law, tfd.Bernoulli):
        return math.inf if float(law.prob(0.0)) > 0 else 1.0
    parts = [_inverse_fourth_moment(law, smallest) for smallest in (1e-4, 1e-3)]
    return parts[0] / parts[1]


def _inverse_fourth_moment(law: tfd.Distribution, smallest: float) -> float:
    """Returns the part of E[xi^-4] with |xi| above a bound, by the trapezoidal rule."""
    log_size = np.linspace(math.log(smallest), math.log(100.0), 20_001)
    size = np.exp(log_size)
    density = law.prob(size.astype("float32")).numpy().astype("float64")
    if isinstance(law, tfd.Normal):  # the others are never negative
        density += law.prob(-size.astype("float32")).numpy()
    heights = density * size**-3.0  # one of four factors is because of the logarithm
    return float(np.sum(0.5 * (heights[1:] + heights[:-1]) * np.diff(log_size)))


def _moments_by_mean_square(noise: str) -> dict[str, list[float]]:
    """Returns the curves of figure 1: the moments against E[xi^2], where finite."""
    if noise == "half_cauchy":
        return {}  # E[xi^2] is infinite
    grid = np.linspace(0.1, 1.0 if noise == "bernoulli" else 8.0, 80)
    rows = tfvn.jensen_gap([law_of(noise, float(value)) for value in grid]).rows
    return {
        "mean_square": [row.mean_square for row in rows],
        "variance": [row.variance for row in rows],
        "inverse_square_variance": [row.inverse_square_variance for row in rows],
    }


def judge(results: Results) -> list[Claim]:
    """Compares with table 1 and with what the text says about figure 1."""
    tests = {
        (n, part): min(results.all(n, "p_values", part), default=math.nan)
        for n in PAPER
        for part in ("variance", "weight")
    }
    smallest = min(tests, key=lambda key: tests[key])
    return [
        Claim(
            "Every noise implies the priors of table 1",
            "five rows",
            f"smallest p-value of ten tests {tests[smallest]:.3f} "
            f"({smallest[0].replace('_', ' ')}, {smallest[1]})",
            judged(
                min(tests.values()) > 0.001, min(tests.values()) > 1e-6, tests.values()
            ),
        ),
        *(_moment_claim(results, *row) for row in MOMENTS),
    ]


def _moment_claim(
    results: Results, claim: str, paper: str, noises: tuple[str, ...], is_finite: bool
) -> Claim:
    """Judges whether Var[xi^-2] is finite, by how E[xi^-4] grows near zero."""
    growths = {n: results.first(n, "growth") or {"": "nan"} for n in noises}
    factors = [float(f) for growth in growths.values() for f in growth.values()]
    finite = [factor < 1.01 for factor in factors]
    shown = "; ".join(
        f"{noise.replace('_', ' ')}: "
        + ", ".join(f"{float(f):.3g} at {name}" for name, f in growth.items())
        for noise, growth in growths.items()
    )
    return Claim(
        claim,
        paper,
        f"{'finite' if all(finite) else 'infinite'}; one more decade near zero multiplies "
        f"E[xi^-4] by {shown}",
        judged(
            all(value == is_finite for value in finite),
            any(value == is_finite for value in finite),
            factors,
        ),
    )


def table(results: Results) -> Table:
    """Returns table 1 with p-values, and the moments at E[xi^2] = 0.8."""
    rows = []
    for noise, names in PAPER.items():
        moments = results.first(noise, "moments") or {}
        tests = [
            results.mean(noise, "p_values", part) for part in ("variance", "weight")
        ]
        cells = [f"{name} (p = {p:.3f})" for name, p in zip(names, tests, strict=True)]
        figures = [f"{float(value):.4g}" for value in moments.values()]
        rows.append([noise.replace("_", " "), *cells, *figures])
    header = ["noise", "prior of xi^2", "prior of the weight"]
    return Table([*header, "E[xi^2]", "Var[xi]", "Var[xi^-2]"], rows)


def draw(results: Results, save: Save) -> None:
    """Draws figure 1, where its curves are finite, and the densities of table 1."""
    curves = {}
    for noise in PAPER:
        figures = results.first(noise, "figure_1") or {}
        for key, name in (
            ("variance", "Var[xi]"),
            ("inverse_square_variance", "Var[xi^-2]"),
        ):
            values = [v for v in figures.get(key, []) if v is not None]
            if values and len(values) == len(figures["mean_square"]):
                label = f"{noise.replace('_', ' ')}, {name}"
                curves[label] = (figures["mean_square"], values)
    axes = tfvn.plots.curves(curves, xlabel="E[xi^2]", ylabel="variance", yscale="log")
    save("figure_1", axes)
    laws = {
        name.replace("_", " "): law_of(name) for name in PAPER if name != "bernoulli"
    }
    save("densities", tfvn.plots.noise_variances(laws))


EXPERIMENT = Experiment(
    name="noise-family",
    paper="Nalisnick and Smyth (2018), table 1 and figure 1",
    claim="Multiplicative noise implies a Gaussian scale mixture as prior of the weights.",
    data=(),
    minutes=2,
    settings={
        "default": {"seeds": 1, "draws": 100_000},
        "quick": {"draws": 4_000},
        "full": {"draws": 1_000_000},
    },
    configurations=tuple(PAPER),
    run=run,
    judge=judge,
    table=table,
    draw=draw,
    notes="The Gaussian noise has mean zero; with mean one, as in dropout, the prior is no "
    "generalized hyperbolic distribution. The half-Cauchy has no finite moments, and no "
    "curve in figure 1. Gaussian noise has a positive density at zero, whatever its mean, so "
    "E[xi^-4] is infinite for every E[xi^2]; the curve in the paper may be an estimate from "
    "samples. Var[xi^-2] of inverse Nakagami noise is finite for every E[xi^2] > 0.",
)
