"""Flipout: one kernel for the batch, signs for each example."""

from typing import Any

import tensorflow as tf

from tfvn import random
from tfvn.estimators.base import Estimate, Estimator, Held, Term, register
from tfvn.estimators.sequence_weights import FlippedWeights
from tfvn.estimators.terms import around_the_mean, delta_of, sum_of
from tfvn.posteriors.base import Posterior
from tfvn.random import SeedGenerator

Tensor = Any


@register("flipout")
class Flipout(Estimator):
    """Samples one kernel for the batch, and flips its noise for each example.

    The kernel of an example is `mean + delta * outer(r, s)`. The batch shares `delta`,
    and each example has its own signs `r` and `s`. Each example has the right
    distribution; the noise of two examples is uncorrelated, though not independent. If a
    kernel slides over positions, all positions of an example share the signs, and so one
    kernel. The estimator is exact for weights that are symmetric about their mean, as in
    all posteriors of this library.

    Reference:

    - [Wen et al., 2018](https://arxiv.org/abs/1803.04386), section 3
    """

    def __call__(self, terms: list[Term], seed_generator: SeedGenerator) -> Estimate:
        perturbation = sum_of(_flipped(term, seed_generator) for term in terms)
        axes = terms[0].linear_op.output_axes
        noise = perturbation * _signs(perturbation, axes, seed_generator)
        return around_the_mean(terms, noise)

    def hold(
        self,
        posteriors: dict[str, Posterior],
        batch_size: Tensor,
        dtype: Any,
        seed_generator: SeedGenerator,
    ) -> Held:
        def signs(size: int) -> Tensor:
            shape = tf.stack([batch_size, size])
            seed = seed_generator.next(per_example=True)
            return random.rademacher(shape, seed, dtype)

        deltas = {name: delta_of(p, seed_generator) for name, p in posteriors.items()}
        kernels = {name: p.spec for name, p in posteriors.items() if p.spec.input_axes}
        # All weights share one sign per column, because their noise is independent
        # anyway.
        return FlippedWeights(
            {name: p.mean() for name, p in posteriors.items() if not p.zero_mean},
            deltas,
            {name: signs(spec.rows) for name, spec in kernels.items()},
            signs(kernels["kernel"].columns),
            dtype,
        )


def _flipped(term: Term, seed_generator: SeedGenerator) -> Tensor:
    inputs = term.inputs
    delta = delta_of(term.posterior, seed_generator)
    if term.linear_op.input_axes:
        signs = _signs(inputs, term.linear_op.input_axes, seed_generator)
        inputs = inputs * signs
    return term.linear_op(inputs, delta)


def _signs(
    tensor: Tensor, axes: tuple[int, ...], seed_generator: SeedGenerator
) -> Tensor:
    """Returns random signs for each example along `axes`, the same along all other axes."""
    rank = tensor.shape.rank
    kept = {0, *(axis % rank for axis in axes)}
    shape = tf.shape(tensor)
    shape = [shape[axis] if axis in kept else 1 for axis in range(rank)]
    seed = seed_generator.next(per_example=True)
    return random.rademacher(tf.stack(shape), seed, tensor.dtype)
