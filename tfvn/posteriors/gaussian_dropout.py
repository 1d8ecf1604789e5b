"""The Gaussian-dropout posterior."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import distributions, random
from tfvn.distributions.scalar import SMALLEST_SCALE
from tfvn.kernel import LinearOp
from tfvn.posteriors.base import NormalPosterior, once_per_reading, register
from tfvn.utils.validation import as_number, check_choice

Tensor = Any

ALPHAS = ("layer", "neuron", "weight")
PARAMETERIZATIONS = ("multiplicative", "additive")

# alpha is kept between 1e-8 and 1e8. At the first a weight is practically certain, at the
# second its mean practically zero, and all values computed from alpha are finite in float32.
LARGEST_LOG_ALPHA = math.log(1e8)

# The smallest mean square of the means from which the additive scales are initialized.
_SMALLEST_MEAN_SQUARE = 1e-8


@keras.saving.register_keras_serializable("tfvn")
class KeepAlphaFinite(keras.constraints.Constraint):
    """Projects log alpha onto [-log 1e8, log 1e8] after an update."""

    def __call__(self, value: Tensor) -> Tensor:
        return keras.ops.clip(value, -LARGEST_LOG_ALPHA, LARGEST_LOG_ALPHA)


@register("gaussian_dropout")
class GaussianDropout(NormalPosterior):
    """Weights times Gaussian noise: `N(mean, alpha mean^2)` with a learned `alpha`.

    With the log-uniform prior, the KL pushes `alpha` towards infinity. If the weights of a
    layer or a neuron share one `alpha`, it often becomes very large: the layer goes through
    a phase transition, after which its means carry no information and it acts as a
    variance layer.

    In the multiplicative form a constraint keeps `alpha` between 1e-8 and 1e8 after every
    update, and the layer clips it again when it reads the variable.

    Args:
        alpha: Which weights share an `alpha`: `"layer"`, `"neuron"` (one per output) or
            `"weight"` (one per weight). Defaults to `"layer"`. Leave it out with
            `parameterization="additive"`.
        parameterization: `"multiplicative"`, or `"additive"` for `N(mean, scale^2)`
            with a trainable scale per weight, as in Sparse Variational Dropout.
        initial_log_alpha: Initial value of log alpha. In the additive form, the initial
            log variance minus the logarithm of the mean square of the means.

    Example:

    >>> import tfvn
    >>> layer = tfvn.layers.Dense(3, posterior="gaussian_dropout")
    >>> layer.build((None, 5))
    >>> layer.variable_groups["scale"][0].numpy().item()
    -5.0

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369), section 4.2, for the
      additive form
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), equation 14
    """

    default_prior = "log_uniform"

    def __init__(
        self,
        alpha: str | None = None,
        parameterization: str = "multiplicative",
        initial_log_alpha: float = -5.0,
    ):
        super().__init__()
        check_choice("parameterization", parameterization, PARAMETERIZATIONS)
        if parameterization == "additive" and alpha is not None:
            raise ValueError(
                "Argument `alpha` must be `None` with `parameterization='additive'`, "
                "which has one scale per weight instead of an `alpha`. Received: "
                f"alpha={alpha!r}"
            )
        if alpha is not None:
            check_choice("alpha", alpha, ALPHAS)
        number = as_number(initial_log_alpha)
        if number is None or not abs(number) <= LARGEST_LOG_ALPHA:
            raise ValueError(
                "Argument `initial_log_alpha` must be a finite number between "
                f"{-LARGEST_LOG_ALPHA:.1f} and {LARGEST_LOG_ALPHA:.1f}. "
                f"Received: initial_log_alpha={initial_log_alpha!r}"
            )
        self.alpha = alpha
        self.parameterization = parameterization
        self.initial_log_alpha = number
        self.is_additive = parameterization == "additive"

    def add_scale_variables(
        self, add_weight: Callable[..., keras.Variable], name: str
    ) -> list[keras.Variable]:
        if self.is_additive:
            self.log_variance_variable = add_weight(
                name=f"{name}_log_variance",
                shape=self.spec.shape,
                initializer=self._initial_log_variance,
            )
            return [self.log_variance_variable]
        shapes = {"neuron": (self.spec.columns,), "weight": self.spec.shape}
        self.log_alpha_variable = add_weight(
            name=f"{name}_log_alpha",
            shape=shapes.get(self.alpha or "layer", ()),
            initializer=keras.initializers.Constant(self.initial_log_alpha),
            constraint=KeepAlphaFinite(),
        )
        return [self.log_alpha_variable]

    def _initial_log_variance(self, shape: Any, dtype: Any = None) -> Tensor:
        mean_square = tf.reduce_mean(tf.square(self.mean_variable.value))
        mean_square = tf.maximum(mean_square, _SMALLEST_MEAN_SQUARE)
        return tf.fill(shape, self.initial_log_alpha + tf.math.log(mean_square))

    @once_per_reading
    def log_alpha(self) -> Tensor:
        """Returns log alpha in a shape that broadcasts to the shape of the kernel."""
        if self.is_additive:
            square = tf.maximum(tf.square(self.mean()), SMALLEST_SCALE**2)
            log_alpha = self.log_variance_variable.value - tf.math.log(square)
        else:
            log_alpha = self.log_alpha_variable.value
            if self.alpha == "neuron":
                log_alpha = self.spec.from_columns(log_alpha)
        return tf.clip_by_value(log_alpha, -LARGEST_LOG_ALPHA, LARGEST_LOG_ALPHA)

    @once_per_reading
    def variance(self) -> Tensor:
        if self.is_additive:
            return tf.exp(self.log_variance_variable.value)
        return tf.exp(self.log_alpha()) * tf.square(self.mean())

    def push_variance(self, linear_op: LinearOp, squared_inputs: Tensor) -> Tensor:
        if self.is_additive or self.alpha in ("neuron", "weight"):
            return super().push_variance(linear_op, squared_inputs)
        # One alpha scales the output instead of every weight.
        variance = linear_op(squared_inputs, tf.square(self.mean()))
        return variance * tf.cast(tf.exp(self.log_alpha()), variance.dtype)

    def sample(self, seed: Tensor) -> Tensor:
        mean = self.mean()
        noise = random.normal(mean.shape, seed, mean.dtype)
        if self.is_additive:
            scale = tf.exp(0.5 * self.log_variance_variable.value)
            return mean + scale * noise
        return mean * (1.0 + tf.exp(0.5 * self.log_alpha()) * noise)

    def distribution(self) -> tfp.distributions.Distribution:
        if self.is_additive:
            return distributions.LogVarianceNormal(
                self.mean(), self.log_variance_variable.value
            )
        return distributions.MultiplicativeNormal(self.mean(), self.log_alpha())

    def get_config(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "parameterization": self.parameterization,
            "initial_log_alpha": self.initial_log_alpha,
        }
