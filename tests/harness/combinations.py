"""Arguments made out of the support tables: every pair of them, or all."""

import functools
import itertools
import random

from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import support

# The arguments that give each posterior its variants.
VARIANTS = {
    "variance": [{"noise": n} for n in ("gaussian", "bernoulli", "uniform")],
    "gaussian_dropout": [
        *({"alpha": alpha} for alpha in ("layer", "neuron", "weight")),
        {"parameterization": "additive"},
    ],
    "k_tied": [{"rank": rank} for rank in (1, 2)],
}


def posterior_labels():
    """Returns every posterior that is trained, in every variant, as `"variance/uniform"`."""
    labels = []
    for alias in tfvn.posteriors.base.registry.aliases:
        if tfvn.posteriors.get(alias).is_fitted:
            continue
        variants = VARIANTS.get(alias, [{}])
        labels += ["/".join([alias, *map(str, v.values())]) for v in variants]
    return labels


def make_posterior(label):
    """Returns the posterior that a label stands for, without variables."""
    alias, *values = label.split("/")
    (variant,) = (
        v for v in VARIANTS.get(alias, [{}]) if [*map(str, v.values())] == values
    )
    return type(tfvn.posteriors.get(alias))(**variant)


@functools.cache
def law_of(label):
    """Returns the law of the posterior that a label stands for."""
    return make_posterior(label).law


def make_prior(row):
    """Returns a prior that stands in this row of `tfvn.support.PRIORS`."""
    if row == "none":
        return None
    return tfd.StudentT(5.0, 0.0, 0.5) if row == "any" else row


def table_factors():
    """Returns what the support tables let a layer choose from, as factors."""
    return {
        "posterior": posterior_labels(),
        "estimator": list(support.ESTIMATORS),
        "prior": list(support.PRIORS),
        "kl_method": list(tfvn.layers.weighted_kl.KL_METHODS),
        "bias": ["none", "plain", "mean_field"],
    }


def is_supported(combination, estimators="ESTIMATORS"):
    """Whether the tables offer a combination of (some of) the factors."""
    law = law_of(combination["posterior"])
    table = getattr(support, estimators)
    cells = {
        kind: support.lookup(table, combination[kind], law)
        for kind, table in (
            ("estimator", table),
            ("prior", support.PRIORS),
        )
    }
    if not all(cell.supported for cell in cells.values()):
        return False
    if combination["kl_method"] == "analytic":
        return cells["prior"] != support.MONTE_CARLO
    # The ARD prior is a marker without a density.
    return combination["kl_method"] != "monte_carlo" or combination["prior"] != "ard"


def to_arguments(combination, layer_class):
    """Returns the arguments of a layer that a combination stands for."""
    posterior = make_posterior(combination["posterior"])
    preset = issubclass(layer_class, tfvn.layers.Preset)
    bias = combination["bias"]
    if issubclass(layer_class, tfvn.layers.EinsumDense):
        with_bias = {"bias_axes": None} if bias == "none" else {}
    else:
        with_bias = {"use_bias": bias != "none"}
    return {
        **(posterior.get_config() if preset else {"posterior": posterior}),
        "estimator": combination["estimator"],
        "prior": make_prior(combination["prior"]),
        "kl_method": combination["kl_method"],
        **with_bias,
        "bias_posterior": "mean_field" if bias == "mean_field" else None,
    }


def cross_product(factors, is_valid):
    """Returns every valid combination of the factors' levels."""
    products = itertools.product(*factors.values())
    combinations = (dict(zip(factors, levels, strict=True)) for levels in products)
    return [combination for combination in combinations if is_valid(combination)]


def pairwise(factors, is_valid, attempts=30):
    """Returns valid combinations that hold every valid pair of levels.

    Takes a pair that is not yet covered, and of several random completions the one
    that covers most. Always returns the same combinations for the same factors.
    """
    choose = random.Random(0)
    candidates = cross_product(factors, is_valid)
    with_pair = {}
    for combination in candidates:
        for pair in pairs_of(combination):
            with_pair.setdefault(pair, []).append(combination)
    # In a list, as the order of a set changes from one process to the next.
    missing = dict.fromkeys(with_pair)
    chosen = []
    while missing:
        options = with_pair[next(iter(missing))]
        sample = choose.sample(options, min(attempts, len(options)))
        best = max(sample, key=lambda c: sum(p in missing for p in pairs_of(c)))
        chosen.append(best)
        for pair in pairs_of(best):
            missing.pop(pair, None)
    return chosen


def pairs_of(combination):
    return itertools.combinations(combination.items(), 2)


def label(combination):
    """Returns a combination as the name of a test."""
    return "-".join(str(level) for level in combination.values())
