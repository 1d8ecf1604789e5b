"""Sums of terms, with and without noise."""

from collections.abc import Iterable
from typing import Any

import keras

from tfvn import random
from tfvn.estimators.base import Estimate, Term
from tfvn.posteriors.base import Posterior

Tensor = Any


def add(x: Tensor, y: Tensor) -> Tensor:
    """Returns `x + y`, fused with the op that made `x` if `y` is a plain bias.

    Keras would also treat a `y` of shape `(n, 1, 1)` as a bias, and add it along the last
    axis of `x` if that happens to have size `n`. This function prevents that.

    Args:
        x: A tensor.
        y: A tensor that broadcasts to the shape of `x`.
    """
    return keras.ops.add(x, y) if len(y.shape) == 1 else x + y


def sum_of(tensors: Iterable[Tensor]) -> Tensor:
    """Returns the sum of tensors."""
    total, *rest = tensors
    for tensor in rest:
        total = add(total, tensor)
    return total


def mean_of(term: Term) -> Tensor:
    """Returns the mean of a term."""
    return term.linear_op(term.inputs, term.posterior.mean())


def means_of(terms: list[Term]) -> list[Tensor]:
    """Returns the means of the terms that have one."""
    return [mean_of(term) for term in terms if not term.posterior.zero_mean]


def around_the_mean(terms: list[Term], noise: Tensor) -> Estimate:
    """Returns the estimate with the means of the terms, and with noise around them."""
    # The noise comes before any bias. After it, with a ReLU behind, TensorFlow with oneDNN
    # recognises a product, a bias, a sum and an activation, fuses them into an op without
    # a name, and then gives up optimizing the whole graph.
    means = means_of(terms)
    return Estimate(sum_of([*means[:1], noise, *means[1:]]), (None,) * len(terms))


def delta_of(posterior: Posterior, seed_generator: random.SeedGenerator) -> Tensor:
    """Returns one draw of the noise of a kernel, around its mean."""
    delta = posterior.sample(seed_generator.next())
    return delta if posterior.zero_mean else delta - posterior.mean()
