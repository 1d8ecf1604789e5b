"""Local reparameterization: noise on the outputs."""

from typing import Any

import tensorflow as tf

from tfvn import random
from tfvn.estimators.base import Estimate, Estimator, Term, register
from tfvn.estimators.terms import around_the_mean, means_of, sum_of
from tfvn.random import SeedGenerator

Tensor = Any

# The largest square of an input, so that float32 does not overflow. For larger inputs
# the noise stops growing.
_LARGEST_SQUARE = 1e30


@register("local")
class LocalReparameterization(Estimator):
    """Samples the output instead of the weights, independently for each example.

    With Gaussian weights the output of a linear op is Gaussian. This estimator computes
    its mean and variance and draws one noise per output element, which is cheaper than
    one per weight and gives gradients of lower variance. It is exact per output element
    for Gaussian weights, and matches the moments for others: a Bernoulli or uniform
    variance layer then equals the Gaussian one, up to a scale. If positions share weights
    (in a convolution, along the extra axes of a `Dense`), their outputs are still sampled
    independently.

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 2.1
    """

    noise_per_example = True

    def __call__(self, terms: list[Term], seed_generator: SeedGenerator) -> Estimate:
        scale = safe_sqrt(sum_of(_variance(term) for term in terms))
        seed = seed_generator.next(per_example=True)
        noise = random.normal(tf.shape(scale), seed, scale.dtype)
        noise = tf.cast(noise * scale, terms[0].inputs.dtype)
        return around_the_mean(terms, noise)

    def prepare(self, terms: list[Term], offset: Tensor | None) -> Any:
        """Returns the mean of the output, or `None` if it is zero, and its scale."""
        scale = safe_sqrt(sum_of(_variance(term) for term in terms))
        scale = tf.cast(scale, terms[0].inputs.dtype)
        means = means_of(terms)
        if offset is not None:
            means.append(offset)
        if terms[0].posterior.zero_mean and means:
            # A bias alone would have no rows.
            means.insert(0, tf.zeros_like(scale))
        return (sum_of(means) if means else None), scale

    def redraw(
        self, prepared: Any, copies: int, seed_generator: SeedGenerator
    ) -> Tensor:
        mean, scale = prepared
        rows, *rest = tf.unstack(tf.shape(scale))
        seed = seed_generator.next(per_example=True)
        noise = random.normal(tf.stack([rows, copies, *rest]), seed, scale.dtype)
        outputs = noise * scale[:, None]
        if mean is not None:
            outputs += mean[:, None]
        return tf.reshape(outputs, [rows * copies, *scale.shape[1:]])


@tf.custom_gradient
def safe_sqrt(x: Tensor) -> Any:
    """The square root, with a gradient of 0 if `x` is 0 or, by rounding, below.

    The plain square root has an infinite slope at zero, so that an input row of zeros
    gives NaN gradients. Adding a small constant under the root does not help in float32.

    Args:
        x: A tensor that is negative at most by rounding.

    Returns:
        `sqrt(max(x, 0))`.
    """
    root = tf.sqrt(tf.nn.relu(x))

    def gradient(upstream: Tensor) -> Tensor:
        return tf.math.divide_no_nan(0.5 * upstream, root)

    return root, gradient


def _variance(term: Term) -> Tensor:
    inputs = term.inputs
    # Squares do not fit float16: 300 squared is infinite there, and a scale of 1e-4
    # squared is zero.
    if inputs.dtype == tf.float16:
        inputs = tf.cast(inputs, tf.float32)
    return term.posterior.push_variance(term.linear_op, _square(inputs))


@tf.custom_gradient
def _square(x: Tensor) -> Any:
    # The gradient ignores that large squares are clipped; the exact one would take two
    # more passes over the data.
    square = tf.minimum(tf.square(x), tf.cast(_LARGEST_SQUARE, x.dtype))
    return square, lambda upstream: (2.0 * upstream) * x
