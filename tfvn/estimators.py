"""How noise reaches the output: the estimators.

An estimator gets the terms whose sum is the layer's output, each a linear op of an
input and of a kernel with a posterior, and returns that sum with noise in it.
"""

import abc
import copy
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfvn import random
from tfvn.kernel import LinearOp
from tfvn.posteriors.base import Posterior
from tfvn.posteriors.gaussian_dropout import GaussianDropout
from tfvn.registry import Registry

Tensor = Any

registry = Registry("estimator")
register = registry.register
get = registry.get
serialize = registry.serialize

# Where the squares of inputs end, before they leave float32; the noise stops growing there.
_LARGEST_SQUARE = 1e30


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
        noise: What is to be added to the output, after the bias: TensorFlow then
            fuses the bias with the op that made the output.
    """

    outputs: Tensor
    weights: tuple[Tensor | None, ...]
    noise: Tensor | None = None


class Estimator(abc.ABC):
    """A way to draw `sum(linear_op(inputs, kernel))` for random kernels.

    To add one, subclass this, give the class an alias with
    `tfvn.estimators.register`, and add its row to `tfvn.support.ESTIMATORS`.

    Attributes:
        noise_per_example: Whether the examples of a batch get independent noise.
        draws_weights: Whether it draws kernels, which an estimate of the KL can share.
        draws_noise: Whether two calls differ at all.
    """

    alias: str
    noise_per_example: bool = False
    draws_weights: bool = False
    draws_noise: bool = True

    @abc.abstractmethod
    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        """Returns one draw of the output."""

    def prepare(self, terms: list[Term], offset: Tensor | None) -> Any:
        """Returns what all draws of an output have in common, or `None`.

        It is a structure of tensors that have the batch as their first axis, of which
        `redraw` makes draws for less than a call each. `None`, for an estimator that
        shares nothing between draws, means that it has to be called for each.

        Args:
            terms: The summands of the output.
            offset: What is added to every draw, a bias, or `None`.
        """
        return None

    def redraw(
        self, prepared: Any, copies: int, seed_generator: random.SeedGenerator
    ) -> Tensor:
        """Returns `copies` draws of each example, one after the other."""
        raise NotImplementedError(
            f"`{type(self).__name__}` prepares nothing to draw again from."
        )

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

    noise_per_example = True

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        scale = safe_sqrt(_sum(_variance(term) for term in terms))
        seed = seed_generator.next(per_example=True)
        noise = random.normal(tf.shape(scale), seed, scale.dtype)
        noise = tf.cast(noise * scale, terms[0].inputs.dtype)
        return _around_the_mean(terms, noise)

    def prepare(self, terms: list[Term], offset: Tensor | None) -> Any:
        """Returns the mean of the output, `None` where it is zero, and its scale."""
        scale = safe_sqrt(_sum(_variance(term) for term in terms))
        scale = tf.cast(scale, terms[0].inputs.dtype)
        means = _means(terms)
        mean = _sum(means) if means else None
        if offset is not None:
            mean = add(tf.zeros_like(scale) if mean is None else mean, offset)
        return mean, scale

    def redraw(
        self, prepared: Any, copies: int, seed_generator: random.SeedGenerator
    ) -> Tensor:
        mean, scale = prepared
        rows, *rest = tf.unstack(tf.shape(scale))
        seed = seed_generator.next(per_example=True)
        noise = random.normal(tf.stack([rows, copies, *rest]), seed, scale.dtype)
        outputs = noise * scale[:, None]
        if mean is not None:
            outputs += mean[:, None]
        return tf.reshape(outputs, [rows * copies, *scale.shape[1:]])


@register("weights")
class WeightSampling(Estimator):
    """Draws one kernel for the whole batch.

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 3
    """

    draws_weights = True

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        weights = tuple(term.posterior.sample(seed_generator.next()) for term in terms)
        outputs = _sum(
            term.linear_op(term.inputs, kernel)
            for term, kernel in zip(terms, weights, strict=True)
        )
        return Estimate(outputs, weights)


@register("flipout")
class Flipout(Estimator):
    """Draws one kernel for the batch, and flips its signs for each example.

    An example sees `mean + delta * outer(r, s)`, where `delta` is shared by the batch
    and the signs `r` and `s` are its own: the right distribution for each example,
    and noise that is uncorrelated between examples, though not independent. Where a
    kernel slides over positions the signs are held along them, so that all positions
    of an example share one kernel. Exact for weights that are symmetric about their
    mean, as all posteriors of this library are.

    Reference:

    - [Wen et al., 2018](https://arxiv.org/abs/1803.04386), section 3
    """

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        perturbation = _sum(_flipped(term, seed_generator) for term in terms)
        axes = terms[0].linear_op.output_axes
        noise = perturbation * _signs(perturbation, axes, seed_generator)
        return _around_the_mean(terms, noise)


@register("mean")
class MeanWeights(Estimator):
    """Uses the mean of the weights, without noise: the weight-scaling rule.

    For a variance layer, whose means are zero, this is a random guess.

    Reference:

    - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
    """

    noise_per_example = True
    draws_noise = False

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        return Estimate(_sum(_mean(term) for term in terms), (None,) * len(terms))


class OnlyVariance(LocalReparameterization):
    """The noise of Gaussian-dropout weights, without their means.

    After a phase transition the means of such a layer carry nothing, and it predicts as
    well without them. Other weights keep theirs. The layer draws outputs, whatever its
    own estimator: the same law for each output element, though not their covariances.

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """

    def __call__(
        self, terms: list[Term], seed_generator: random.SeedGenerator
    ) -> Estimate:
        return super().__call__([_without_mean(t) for t in terms], seed_generator)

    def prepare(self, terms: list[Term], offset: Tensor | None) -> Any:
        return super().prepare([_without_mean(term) for term in terms], offset)


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


def _around_the_mean(terms: list[Term], noise: Tensor) -> Estimate:
    means = _means(terms)
    drawn = (None,) * len(terms)
    return Estimate(_sum(means), drawn, noise) if means else Estimate(noise, drawn)


def _means(terms: list[Term]) -> list[Tensor]:
    return [_mean(term) for term in terms if not term.posterior.zero_mean]


def _mean(term: Term) -> Tensor:
    return term.linear_op(term.inputs, term.posterior.mean())


def _without_mean(term: Term) -> Term:
    if not isinstance(term.posterior, GaussianDropout):
        return term
    posterior = copy.copy(term.posterior)
    posterior.zero_mean = True  # no mean is added; the variance is still `alpha mean^2`
    return term._replace(posterior=posterior)


def _flipped(term: Term, seed_generator: random.SeedGenerator) -> Tensor:
    posterior, inputs = term.posterior, term.inputs
    delta = posterior.sample(seed_generator.next())
    if not posterior.zero_mean:
        delta -= posterior.mean()
    if term.linear_op.input_axes:
        signs = _signs(inputs, term.linear_op.input_axes, seed_generator)
        inputs = inputs * signs
    return term.linear_op(inputs, delta)


def _signs(
    tensor: Tensor, axes: tuple[int, ...], seed_generator: random.SeedGenerator
) -> Tensor:
    """Random signs per example along `axes`, held along all others."""
    rank = tensor.shape.rank
    kept = {0, *(axis % rank for axis in axes)}
    shape = tf.shape(tensor)
    shape = [shape[axis] if axis in kept else 1 for axis in range(rank)]
    seed = seed_generator.next(per_example=True)
    return random.rademacher(tf.stack(shape), seed, tensor.dtype)


def _variance(term: Term) -> Tensor:
    inputs = term.inputs
    # Squares leave the range of float16: 300 squared is infinite there, and a
    # scale of 1e-4 squared is zero.
    if inputs.dtype == tf.float16:
        inputs = tf.cast(inputs, tf.float32)
    return term.posterior.push_variance(term.linear_op, _square(inputs))


@tf.custom_gradient
def _square(x: Tensor) -> Any:
    # Of a square that was cut off the slope stays; its own would take two more passes.
    square = tf.minimum(tf.square(x), tf.cast(_LARGEST_SQUARE, x.dtype))
    return square, lambda upstream: upstream * (2.0 * x)


def _sum(tensors: Any) -> Tensor:
    total, *rest = tensors
    for tensor in rest:
        total = add(total, tensor)
    return total
