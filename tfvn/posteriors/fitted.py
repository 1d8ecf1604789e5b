"""Normal posteriors that are fitted in closed form, and not trained."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import distributions, random
from tfvn.kernel import KernelSpec
from tfvn.posteriors.base import Posterior, register
from tfvn.support import CORRELATED
from tfvn.utils.validation import check_number

Tensor = Any

# The standard deviations of a layer that nobody has fitted yet.
_INITIAL_SCALE = 0.01


class FittedNormal(Posterior):
    """Normal weights with variables that training does not change.

    `tfvn.last_layer_laplace` sets the variables. It also passes what it found besides them,
    which the posterior only keeps, so that it can be read and is saved with the model.

    Args:
        prior_precision: Precision `1 / scale^2` of the Normal prior of the weights.
        log_marginal_likelihood: Logarithm of the probability density of the training
            data, with the weights integrated out, in nats.
        noise_scale: Standard deviation of the targets around the outputs of a regression.
    """

    is_fitted = True

    def __init__(
        self,
        prior_precision: Any = None,
        log_marginal_likelihood: Any = None,
        noise_scale: Any = None,
    ):
        super().__init__()
        self.prior_precision = check_number(
            "prior_precision", prior_precision, above=0, or_none=True
        )
        self.log_marginal_likelihood = check_number(
            "log_marginal_likelihood", log_marginal_likelihood, or_none=True
        )
        self.noise_scale = check_number(
            "noise_scale", noise_scale, above=0, or_none=True
        )

    def scale_shape(self, spec: KernelSpec) -> tuple[int, ...]:
        """Returns the shape of the standard deviations."""
        return spec.shape

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        self.spec = spec
        self.mean_variable = add_weight(
            name=f"{name}_mean", shape=spec.shape, trainable=False, **options
        )
        self.scale_variable = add_weight(
            name=f"{name}_scale",
            shape=self.scale_shape(spec),
            initializer=keras.initializers.Constant(_INITIAL_SCALE),
            trainable=False,
        )

    def mean(self) -> Tensor:
        return self.mean_variable.value

    def get_config(self) -> dict[str, Any]:
        names = ("prior_precision", "log_marginal_likelihood", "noise_scale")
        return {name: getattr(self, name) for name in names}


@register("diagonal_normal")
class DiagonalNormal(FittedNormal):
    """Independent Normal weights that are fitted, and not trained.

    Args:
        prior_precision: Precision of the Normal prior of the weights.
        log_marginal_likelihood: Logarithm of the marginal likelihood, in nats.
        noise_scale: Standard deviation of the targets of a regression.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile(loss="mse")
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    >>> fitted = tfvn.last_layer_laplace(model, x, y, hessian="diag")
    >>> type(fitted.layers[-1].posterior).__name__
    'DiagonalNormal'
    """

    def variance(self) -> Tensor:
        return tf.square(self.scale_variable.value)

    def sample(self, seed: Tensor) -> Tensor:
        scale = self.scale_variable.value
        return self.mean() + scale * random.normal(scale.shape, seed, scale.dtype)

    def distribution(self) -> tfp.distributions.Distribution:
        return tfd.Normal(self.mean(), self.scale_variable.value)


@register("matrix_normal")
class MatrixNormal(FittedNormal):
    """Correlated Normal weights: a Kronecker product of rows and columns, fitted.

    The covariance of the weights has eigenvectors that are products of one for the rows and
    one for the columns of the kernel, and an eigenvalue for each of them. With `z` standard
    Normal noise, a kernel is `mean + left @ (scale * z) @ transpose(right)`. The posterior
    is not trained.

    Args:
        prior_precision: Precision of the Normal prior of the weights.
        log_marginal_likelihood: Logarithm of the marginal likelihood, in nats.
        noise_scale: Standard deviation of the targets of a regression.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    >>> model.compile(loss="mse")
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    >>> fitted = tfvn.last_layer_laplace(model, x, y, hessian="kron")
    >>> posterior = fitted.layers[-1].posterior
    >>> posterior.left_variable.numpy().shape, posterior.scale_variable.numpy().shape
    ((3, 3), (3, 3))

    Reference:

    - [Ritter et al., 2018](https://openreview.net/forum?id=Skdvd2xAZ), section 3
    """

    law = CORRELATED

    def scale_shape(self, spec: KernelSpec) -> tuple[int, ...]:
        return (spec.rows, spec.columns)

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        super().build(add_weight, spec, name, **options)
        rows, columns = self.scale_shape(spec)
        self.left_variable, self.right_variable = (
            add_weight(
                name=f"{name}_{side}_eigenvectors",
                shape=(size, size),
                initializer="identity",
                trainable=False,
            )
            for side, size in (("left", rows), ("right", columns))
        )

    def variance(self) -> Tensor:
        return self.distribution().variance()

    def sample(self, seed: Tensor) -> Tensor:
        scale = self.scale_variable.value
        noise = random.normal(scale.shape, seed, scale.dtype)
        return self.distribution().from_noise(noise)

    def distribution(self) -> Any:
        return distributions.RotatedNormal(
            self.mean(),
            self.scale_variable.value,
            self.left_variable.value,
            self.right_variable.value,
            self.spec.output_axes,
        )


@register("full_normal")
class FullNormal(MatrixNormal):
    """Normal weights with any covariance, fitted and not trained.

    It stores a matrix with a row and a column for each weight: the eigenvectors of the
    covariance.

    Args:
        prior_precision: Precision of the Normal prior of the weights.
        log_marginal_likelihood: Logarithm of the marginal likelihood, in nats.
        noise_scale: Standard deviation of the targets of a regression.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    >>> model.compile(loss="mse")
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    >>> fitted = tfvn.last_layer_laplace(model, x, y, hessian="full")
    >>> fitted.layers[-1].posterior.left_variable.numpy().shape
    (9, 9)
    """

    def scale_shape(self, spec: KernelSpec) -> tuple[int, ...]:
        # The rotation mixes all weights, which are one column.
        return (spec.rows * spec.columns, 1)
