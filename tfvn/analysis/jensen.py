"""The Jensen gap: what averaging log-likelihoods over noise loses."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import passes
from tfvn.distributions import noise_aliases, noise_law
from tfvn.distributions.noise import inverse_square_moments
from tfvn.layers.noise.base import NoiseSource
from tfvn.layers.noise.noisy_conv2d import NoisyConv2D
from tfvn.layers.noise.noisy_lstm import NoisyLSTMCell
from tfvn.utils.tables import text_table

_HEADER = ("", "E[xi^2]", "Var[xi]", "Var[xi^-2]", "in likelihood", "in prior")


@dataclasses.dataclass(frozen=True)
class NoiseRow:
    """The moments of one noise, and its leading terms of the gap.

    Attributes:
        name: The name of the law, or of the layer that has the noise.
        mean_square: `E[xi^2]`.
        variance: `Var[xi]`.
        inverse_square_variance: `Var[xi^-2]`, which may be infinite; NaN if unknown.
        likelihood: Leading term of the gap, in nats, with the noise in the likelihood.
        prior: The same with the noise in the prior, as a random scale of the weights.
    """

    name: str
    mean_square: float
    variance: float
    inverse_square_variance: float
    likelihood: float | None = None
    prior: float | None = None


@dataclasses.dataclass(frozen=True)
class JensenGap:
    """The result of `tfvn.jensen_gap`: a row for each noise, and their sums.

    Attributes:
        rows: One `NoiseRow` for each law, or for each noise of a model.
    """

    rows: tuple[NoiseRow, ...]

    @property
    def likelihood(self) -> float | None:
        """Leading term of the gap with the noise in the likelihood, or `None`."""
        return _total(row.likelihood for row in self.rows)

    @property
    def prior(self) -> float | None:
        """Leading term of the gap with the noise in the prior, or `None`."""
        return _total(row.prior for row in self.rows)

    def __repr__(self) -> str:
        measured = self.likelihood is not None
        lines: list[tuple[str, ...]] = [_HEADER if measured else _HEADER[:4]]
        lines += [_cells(row)[: len(lines[0])] for row in self.rows]
        if measured:
            sums = (_figure(self.likelihood), _figure(self.prior))
            lines.append(("sum", "", "", "", *sums))
        return "\n".join(text_table(lines[0], lines[1:], "l".ljust(len(lines[0]), "r")))


def jensen_gap(
    subject: Any = None,
    x: Any = None,
    y: Any = None,
    loss: Any = None,
    prior_scale: float = 1.0,
) -> JensenGap:
    """Measures how far averaging log-likelihoods over noise is from the marginal.

    Training under noise maximises `E[log p]` instead of `log E[p]`. The gap between them is
    to leading order `Var[xi] / 2` times the squared gradient of the log-likelihood with
    respect to the noise, summed over the noise variables. With the noise in the prior
    instead, as a random scale of the weights, the gap would be of the order of `Var[xi^-2]`,
    which is infinite for all common laws except the inverse Nakagami. That is why noise
    belongs in the likelihood.

    Args:
        subject: A law of noise (an alias or a `tfd.Distribution`), a list of laws, or `None`
            for every alias, to compare their moments; or a model with noise layers, to
            measure the leading terms too.
        x: Inputs of the model.
        y: Targets of the model.
        loss: Negative log-likelihood of an example, a Keras loss. `None` is the loss that the
            model was compiled with.
        prior_scale: Standard deviation of the Normal factor of the prior, for layers without
            their own.

    Returns:
        A `JensenGap`, which prints as a table. The leading terms are sums over the
        examples, at the mean of the noise. The term of the prior is a sum over weights,
        which is right if each weight has its own scale. It is NaN for a layer whose noise
        acts on the weights of other layers, unless it is infinite for any weights.

    Example:

    >>> import tfvn
    >>> tfvn.jensen_gap(["rayleigh", "inverse_nakagami"])
                      E[xi^2]  Var[xi]  Var[xi^-2]
    rayleigh                1    0.215         inf
    inverse_nakagami        1    0.215           2

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), propositions 4.1 and 4.2
    """
    if isinstance(subject, keras.Layer):
        return JensenGap(tuple(_measure(subject, x, y, loss, prior_scale)))
    named = noise_aliases() if subject is None else subject
    rows = []
    for noise in named if isinstance(named, list | tuple) else [named]:
        law = noise_law(noise)
        name = noise if isinstance(noise, str) else law.name
        rows.append(NoiseRow(name, *_moments(law)))
    return JensenGap(tuple(rows))


def _moments(law: tfd.Distribution, divisor: float = 1.0) -> tuple[float, float, float]:
    """Returns `E[xi^2]`, `Var[xi]` and `Var[xi^-2]` of the noise over a divisor."""
    try:
        mean, variance = float(law.mean()), float(law.variance())
    except NotImplementedError:
        mean = variance = math.nan
    if isinstance(law, tfd.HalfCauchy):
        # TFP returns undefined moments, but they are infinite.
        mean = variance = math.inf
    _, inverse = inverse_square_moments(law)
    square = variance + mean**2
    return square / divisor**2, variance / divisor**2, inverse * divisor**4


def _measure(
    model: keras.Layer, x: Any, y: Any, loss: Any, prior_scale: float
) -> list[NoiseRow]:
    if loss is None:
        loss = getattr(model, "loss", None)
    if x is None or y is None or loss is None:
        raise ValueError(
            "The gap of a model needs data and a negative log-likelihood; pass `x`, "
            "`y` and, unless the model is compiled, `loss`. "
            f"Received: x={type(x).__name__}, y={type(y).__name__}, loss={loss!r}"
        )
    loss = keras.losses.get(loss)
    per_example = loss.call if isinstance(loss, keras.losses.Loss) else loss
    # For each noise: the layer, its source, and the centre that replaces the draw.
    noises: list[tuple[Any, NoiseSource, Any]] = []

    def center(layer: Any, source: NoiseSource, shape: Any) -> Any:
        factors = tf.fill(shape, tf.cast(source.quiet, layer.compute_dtype))
        tape.watch(factors)
        noises.append((layer, source, factors))
        return factors

    with (
        tf.GradientTape() as tape,
        passes.entered(passes.Pass(noise_of=center, adds_kl=False)),
    ):
        outputs = model(x, training=False)
        nll = tf.reduce_sum(per_example(tf.convert_to_tensor(y), outputs))
    if not noises:
        raise ValueError(
            "The model must have a layer with multiplicative noise, such as "
            f"`tfvn.MultiplicativeNoise`. Received: model={model.name!r}, which has none"
        )
    layers, sources, factors = zip(*noises, strict=True)
    gradients = tape.gradient(nll, list(factors), unconnected_gradients="zero")
    rows = []
    for index, (layer, source, gradient) in enumerate(
        zip(layers, sources, gradients, strict=True)
    ):
        moments = _moments(source.law, source.divisor)
        squares = float(tf.reduce_sum(tf.square(tf.cast(gradient, tf.float32))))
        # Without a gradient there is no gap, even if the variance is infinite.
        likelihood = 0.5 * moments[1] * squares if squares else 0.0
        before = sum(other is layer for other in layers[:index])
        prior = _prior_term(layer, source, before, prior_scale)
        rows.append(NoiseRow(layer.name, *moments, likelihood, prior))
    return rows


def _prior_term(
    layer: Any, source: NoiseSource, before: int, prior_scale: float
) -> float:
    """Returns the leading term of proposition 4.2, summed over the weights of a noise.

    Args:
        layer: The layer.
        source: The noise.
        before: How many noises the layer has drawn before this one.
        prior_scale: As in `jensen_gap`.
    """
    mean, variance = _precision_moments(source)
    other = 1.0
    if isinstance(layer, NoisyConv2D) and layer.structure == "channels_and_filters":
        # Both noises scale the same weights.
        second = (layer.filter_source, layer.source)[before % 2]
        other, _ = _precision_moments(second)
    if variance == 0:
        return 0.0
    if math.isinf(variance) or math.isinf(other):
        return math.inf
    weights = getattr(layer, "prior_weights", None)
    if weights is None:
        return math.nan
    scale = getattr(layer, "prior_scale", None) or prior_scale
    kernel = keras.ops.convert_to_numpy(weights[0]).astype("float64")
    if isinstance(layer, NoisyLSTMCell) and layer.gates == "untied":
        # Each of the four gates has its own columns and its own noise.
        kernel = np.split(kernel, 4, axis=-1)[before % 4]
    # The derivative of log N(w; 0, scale^2 / (precision other)) with respect to the
    # precision, with all of them at their means.
    slope = 0.5 / mean - other * np.square(kernel) / (2.0 * scale**2)
    return float(0.5 * variance * np.sum(np.square(slope)))


def _precision_moments(source: NoiseSource) -> tuple[float, float]:
    """Returns mean and variance of a weight's precision under a noise."""
    mean, variance = inverse_square_moments(source.law)
    return mean * source.divisor**2, variance * source.divisor**4


def _total(terms: Any) -> float | None:
    known = [term for term in terms if term is not None]
    return sum(known) if known else None


def _cells(row: NoiseRow) -> tuple[str, ...]:
    return (row.name, *(_figure(value) for value in dataclasses.astuple(row)[1:]))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
