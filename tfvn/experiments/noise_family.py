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
    sizes = [int(count * 10.0**-power) for power in (2, 1, 0)]
    return {
        "p_values": tests,
        "prior": prior.name,
        # `str`, because JSON has no infinity.
        "moments": {
            "E[xi^2]": str(moments.mean_square),
            "Var[xi]": str(moments.variance),
            "Var[xi^-2]": str(moments.inverse_square_variance),
        },
        "sampled_inverse_square_variance": {
            str(size): _inverse_square_variance(xi[:size]) for size in sizes
        },
        "figure_1": _moments_by_mean_square(noise),
    }


def _inverse_square_variance(xi: np.ndarray) -> str:
    """Returns the variance of draws of xi^-2, which grows with their number if infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.var(xi**-2.0)
    return str(float("inf") if np.isnan(variance) else float(variance))


def _moments_by_mean_square(noise: str) -> dict[str, list[float]]:
    """Returns the curves of figure 1: the moments against E[xi^2], where finite."""
    if noise == "half_cauchy":
        return {}  # E[xi^2] is infinite
    grid = np.linspace(0.05, 1.0 if noise == "bernoulli" else 2.0, 40)
    rows = tfvn.jensen_gap([law_of(noise, float(value)) for value in grid]).rows
    return {
        "mean_square": [row.mean_square for row in rows],
        "variance": [row.variance for row in rows],
        "inverse_square_variance": [row.inverse_square_variance for row in rows],
    }


def judge(results: Results) -> list[Claim]:
    """Compares with table 1 and with what the text says about figure 1."""
    tests = {
        (n, part): results.mean(n, "p_values", part)
        for n in PAPER
        for part in ("variance", "weight")
    }
    smallest = min(tests, key=lambda key: tests[key])
    found = {n: results.first(n, "moments", "Var[xi^-2]") for n in PAPER}
    ran = all(found.values())
    missing = [] if ran else [float("nan")]
    finite = {n: v is not None and math.isfinite(float(v)) for n, v in found.items()}
    grown = results.first("gaussian", "sampled_inverse_square_variance") or {}
    shown = ", ".join(f"{float(v):.1e} of {int(k):,}" for k, v in grown.items())
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
        Claim(
            "Var[xi^-2] is infinite for Bernoulli and Rayleigh noise, and finite for "
            "inverse Nakagami noise",
            "infinite, infinite, finite",
            ", ".join(
                "finite" if finite[n] else "infinite"
                for n in ("bernoulli", "rayleigh", "inverse_nakagami")
            ),
            judged(
                not finite["bernoulli"]
                and not finite["rayleigh"]
                and finite["inverse_nakagami"],
                in_direction=False,
                figures=missing,
            ),
        ),
        Claim(
            "Var[xi^-2] of Gaussian noise is finite where E[xi^2] is large enough",
            "finite above about 4",
            "infinite for every E[xi^2], because the density at 0 is positive; the "
            f"variance of draws keeps growing: {shown}",
            judged(finite["gaussian"], in_direction=False, figures=missing),
        ),
    ]


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
    "curve in figure 1.",
)
