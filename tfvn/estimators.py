"""How noise reaches the output: the estimators.

An estimator gets the terms whose sum is the layer's output, each a linear op of an
input and of a kernel with a posterior, and returns that sum with noise in it.
"""

import abc
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfvn import random
from tfvn.posteriors.base import LinearOp, Posterior
from tfvn.registry import Registry

Tensor = Any

registry = Registry("estimator")
register = registry.register
get = registry.get
serialize = registry.serialize

# Inputs beyond this have squares that leave float32; the noise stops growing there.
_LARGEST_INPUT = 1e15


class Term(NamedTuple):
    """One summand of a layer's output, `linear_op(inputs, kernel)`."""

    linear_op: LinearOp
    posterior: Posterior
    inputs: Tensor


class Estimate(NamedTuple):
    """An output with noise in it.

    Attributes:
        outputs: The output, in the dtype of the inputs.
        weights: The kernel that was drawn for each term, or `None` where the
            estimator draws none.
    """

    outputs: Tensor
    weights: tuple[Tensor | None, ...]


class Estimator(abc.ABC):
    """A way to draw `sum(linear_op(inputs, kernel))` for random kernels.

    To add one, subclass this, give the class an alias with
    `tfvn.estimators.register`, and add its row to `tfvn.support.ESTIMATORS`.
    """

    alias: str

    @abc.abstractmethod
    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        """Returns one draw of the output."""

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Estimator":
        return cls(**config)


@register("local")
class LocalReparameterization(Estimator):
    """Draws the output instead of the weights, independently for each example.

    The output of a linear op of Gaussian weights is Gaussian; its mean and variance
    are computed and one noise is drawn per output element, which is cheaper than one
    per weight and gives gradients of lower variance. Exact per output element for
    Gaussian weights, and moment matching for others: a Bernoulli or uniform variance
    layer then IS the Gaussian one, up to a scale. Where positions share weights (in
    a convolution, along the extra axes of a Dense) their covariance is dropped.

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 2.1
    """

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        variance = _sum(_variance(term) for term in terms)
        noise = random.normal(tf.shape(variance), seed_generator.next(), variance.dtype)
        outputs = noise * safe_sqrt(variance)
        dtype = terms[0].inputs.dtype
        means = [_mean(term) for term in terms if not term.posterior.zero_mean]
        outputs = _sum([tf.cast(outputs, dtype), *means])
        return Estimate(outputs, (None,) * len(terms))


@register("weights")
class WeightSampling(Estimator):
    """Draws one kernel for the whole batch.

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 3
    """

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        weights = tuple(term.posterior.sample(seed_generator.next()) for term in terms)
        outputs = _sum(
            _apply(term, kernel) for term, kernel in zip(terms, weights, strict=True)
        )
        return Estimate(outputs, weights)


@register("mean")
class MeanWeights(Estimator):
    """Uses the mean of the weights, without noise: the weight-scaling rule.

    For a variance layer, whose means are zero, this is a random guess.

    Reference:

    - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
    """

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        return Estimate(_sum(_mean(term) for term in terms), (None,) * len(terms))


@tf.custom_gradient
def safe_sqrt(x: Tensor) -> Any:
    """The square root, with a gradient of 0 where `x` is 0 or, by rounding, below.

    The plain square root has an infinite slope at zero, and an all-zero row of
    inputs then gives NaN gradients. Adding a small constant under the root does not
    help in float32.

    Args:
        x: A tensor that is not negative but for rounding.

    Returns:
        `sqrt(max(x, 0))`.
    """
    root = tf.sqrt(tf.nn.relu(x))

    def gradient(upstream: Tensor) -> Tensor:
        return tf.math.divide_no_nan(0.5 * upstream, root)

    return root, gradient


def add(x: Tensor, y: Tensor) -> Tensor:
    """Returns `x + y`, fused with the op that made `x` where `y` is a plain bias.

    Keras also takes a `y` of shape `(n, 1, 1)` for a bias, and adds it along the last
    axis of `x` if that happens to be of size `n`; it gets no chance to.

    Args:
        x: A tensor.
        y: A tensor that broadcasts to the shape of `x`.
    """
    return keras.ops.add(x, y) if len(y.shape) == 1 else x + y


def _apply(term: Term, kernel: Tensor) -> Tensor:
    return term.linear_op(term.inputs, tf.cast(kernel, term.inputs.dtype))


def _mean(term: Term) -> Tensor:
    return _apply(term, term.posterior.mean())


def _variance(term: Term) -> Tensor:
    inputs = term.inputs
    # Squares leave the range of float16: 300 squared is infinite there, and a
    # scale of 1e-4 squared is zero.
    if inputs.dtype == tf.float16:
        inputs = tf.cast(inputs, tf.float32)
    limit = tf.cast(_LARGEST_INPUT, inputs.dtype)
    squared = tf.square(tf.clip_by_value(inputs, -limit, limit))

    def linear_op(x: Tensor, kernel: Tensor) -> Tensor:
        return term.linear_op(x, tf.cast(kernel, x.dtype))

    return term.posterior.push_variance(linear_op, squared)


def _sum(tensors: Any) -> Tensor:
    total, *rest = tensors
    for tensor in rest:
        total = add(total, tensor)
    return total
