"""Normals with a random scale, by quadrature, for noise without a closed form."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions import trainable
from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register

# The quadrature integrates over log|noise|, in panels of at most `_PANEL_WIDTH`, each with
# `_NODES_PER_PANEL` Gauss-Legendre nodes. A Normal is a smooth function of its log scale, so
# panels need be narrow only where the density of the noise is. `_LOG_RANGES` are tried in
# order until the mass that was found is 1 within `_ERRORS[0]`. If the last range is wrong
# by more than `_ERRORS[1]`, that is an error.
_LOG_RANGES = (20.0, 80.0, 700.0)
_ERRORS = (1e-5, 1e-3)
_PANEL_WIDTH = 0.5
_NODES_PER_PANEL = 8

# Panels also end at quantiles of the noise, at the levels that a Normal has at these
# numbers of standard deviations, and at the ends of the support.
_DEVIATIONS = np.arange(-6.0, 6.5, 0.5)


@register
class ScaleMixture(ScalarDistribution):
    """The distribution of `noise * N(0, scale^2)` for noise with a smooth density.

    Samples are products of a noise and a Normal. The density and the distribution function
    are integrals over the noise, computed by Gauss-Legendre quadrature in its logarithm: a
    mixture of a few hundred Normals.

    Args:
        noise: A scalar `tfd.Distribution` with a density.
        scale: Standard deviation of the Normal, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> from tensorflow_probability import distributions as tfd
    >>> import tfvn
    >>> law = tfvn.distributions.ScaleMixture(tfd.Normal(1.0, 0.5), scale=2.0)
    >>> float(law.variance())
    5.0

    Reference:

    - [Andrews and Mallows, 1974](https://doi.org/10.1111/j.2517-6161.1974.tb00989.x)
    """

    def __init__(
        self,
        noise: tfd.Distribution,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ScaleMixture",
    ):
        parameters = dict(locals())
        if not is_density(noise):
            raise ValueError(
                "The noise of a `ScaleMixture` must be a single scalar distribution with "
                f"a density. Received: noise={noise}"
            )
        if trainable.variables(noise):
            raise ValueError(
                "The parameters of the noise of a `ScaleMixture` can't be trained, "
                "because the integral over the noise is computed once; make them numbers. "
                f"Received: noise={noise} with variables"
            )
        self.noise = noise
        self.scale = tf.convert_to_tensor(scale, noise.dtype)
        super().__init__(parameters, noise.dtype, noise.reparameterization_type)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"scale": tfd.Normal.parameter_properties(dtype)["scale"]}

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        first, second = tf.unstack(tfp.random.split_seed(seed, n=2))
        shape = tf.concat([[n], tf.shape(self.scale)], axis=0)
        normal = random.normal(shape, second, self.dtype)
        return self.noise.sample(shape, seed=first) * self.scale * normal

    def _log_prob(self, value: Any) -> Any:
        components, log_weights = self._components()
        densities = components.log_prob(tf.expand_dims(value, -1))
        return tf.reduce_logsumexp(log_weights + densities, axis=-1)

    def _cdf(self, value: Any) -> Any:
        components, log_weights = self._components()
        parts = components.cdf(tf.expand_dims(value, -1))
        return tf.reduce_sum(tf.exp(log_weights) * parts, axis=-1)

    def _mean(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _variance(self) -> Any:
        square = self.noise.variance() + tf.square(self.noise.mean())
        return tf.square(self.scale) * square

    def _components(self) -> tuple[tfd.Distribution, Any]:
        """Returns the Normals of the quadrature and the logarithms of their weights."""
        # Computed outside of any graph, because the noise is a constant.
        with tf.init_scope():
            largest = np.log(np.finfo(self.dtype.as_numpy_dtype).max)
            ranges = [end for end in _LOG_RANGES if end < largest] or [float(largest)]
            for end in ranges:
                nodes, weights = self._nodes_and_weights(end)
                mass = tf.reduce_sum(weights)
                error = float(tf.abs(mass - 1.0))
                if error < _ERRORS[0]:
                    break
            if not error < _ERRORS[1]:
                raise ValueError(
                    f"Nearly all values of `noise` must lie between exp(-{end:g}) and "
                    f"exp({end:g}), the range over which `ScaleMixture` integrates; "
                    "try noise in float64, for which the range is wider than in "
                    f"float32. Received: noise={self.noise}, with a probability of "
                    f"{float(mass):.4f} in this range"
                )
            log_weights = tf.math.log(weights) - tf.math.log(mass)
        scales = tf.expand_dims(self.scale, -1) * nodes
        return tfd.Normal(tf.zeros((), self.dtype), scales), log_weights

    def _nodes_and_weights(self, end: float) -> tuple[Any, Any]:
        log_nodes, widths = _quadrature(self.noise, end)
        nodes = tf.constant(np.exp(log_nodes), self.dtype)
        # A Normal is symmetric, so the sign of the noise does not matter.
        densities = self.noise.prob(tf.stack([nodes, -nodes]))
        # Outside of the support, `prob` of a TFP distribution may return NaN or infinity.
        is_inside = tf.math.is_finite(densities)
        density = tf.reduce_sum(tf.where(is_inside, densities, 0.0), axis=0)
        return nodes, density * nodes * widths.astype(self.dtype.as_numpy_dtype)


def is_density(law: Any) -> bool:
    """Whether a distribution is a single scalar one with a density."""
    if law.event_shape.rank != 0 or law.batch_shape.rank != 0:
        return False
    try:
        # TFP has no bijector onto the support of a discrete distribution.
        return law.experimental_default_event_space_bijector() is not None
    except NotImplementedError:
        return law.dtype.is_floating


def _quadrature(noise: tfd.Distribution, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nodes, values of `log|noise|`, and the weight of each node."""
    borders = np.arange(-end, end, _PANEL_WIDTH)
    try:
        normal = tfd.Normal(np.float64(0.0), 1.0)
        levels = [0.0, *normal.cdf(_DEVIATIONS).numpy(), 1.0]
        quantiles = np.abs(noise.quantile(tf.constant(levels, noise.dtype)).numpy())
    except NotImplementedError:
        quantiles = np.array([])
    quantiles = quantiles[np.isfinite(quantiles) & (quantiles > 0)]
    borders = np.unique(np.concatenate([borders, np.log(quantiles)]))
    borders = borders[np.abs(borders) <= end]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
    half = np.diff(borders)[:, np.newaxis] / 2.0
    middle = borders[:-1, np.newaxis] + half
    return np.ravel(middle + half * nodes), np.ravel(half * weights)
