"""Negative log-likelihoods that Keras does not have."""

from typing import Any

import keras
import tensorflow as tf

from tfvn import likelihoods

__all__ = [
    "GaussianNLL",
    "LaplaceNLL",
    "LogNormalNLL",
    "NegativeLogLikelihood",
    "PoissonNLL",
    "StudentTNLL",
]

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class NegativeLogLikelihood(keras.losses.Loss):
    """The negative log-likelihood of targets, in nats, summed over the last axis.

    Predictions, exports and, in a `tfvn.Model`, metrics read from this loss what the model's
    outputs are.

    Targets and outputs have the same shape except for the last axis. There, the outputs have
    as many numbers for each target as the likelihood has parameters: the first parameters of
    all targets, then the second parameters of all targets. With a single target per example,
    you may leave out the last axis of the targets.

    Args:
        likelihood: The family of distributions: `"normal"`, `"laplace"`, `"student_t"`,
            `"log_normal"`, `"poisson"`, or an instance of `tfvn.likelihoods`.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.NegativeLogLikelihood("poisson")
    >>> float(loss(np.zeros(2), np.zeros((2, 1))))  # rate 1, nothing counted
    1.0
    """

    def __init__(
        self,
        likelihood: Any,
        reduction: str = "sum_over_batch_size",
        name: str = "negative_log_likelihood",
        dtype: Any = None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.likelihood: Any = likelihoods.get(likelihood)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        y_true, y_pred = map(keras.ops.convert_to_tensor, (y_true, y_pred))
        if y_pred.shape.rank == 1:
            y_pred = y_pred[:, None]  # one output for each example
        y = likelihoods.aligned(y_true, self.likelihood.split(y_pred)[0])
        if y is None:
            count = self.likelihood.parameters
            raise ValueError(
                f"The outputs must have {count} numbers for each target with "
                f"{self.likelihood}, and so a last axis of size "
                f"{count * (y_true.shape[-1] or 1)} for these targets. Received: "
                f"y_true.shape={tuple(y_true.shape)}, y_pred.shape={tuple(y_pred.shape)}"
            )
        return -tf.reduce_sum(self.likelihood.log_prob(y_pred, y), axis=-1)

    def get_config(self) -> dict[str, Any]:
        likelihood = likelihoods.registry.serialize(self.likelihood)
        return {**super().get_config(), "likelihood": likelihood}


class _FamilyNLL(NegativeLogLikelihood):
    """A loss that has the arguments of its likelihood."""

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["likelihood"]
        return {**config, **self.likelihood.get_config()}


@keras.saving.register_keras_serializable("tfvn")
class GaussianNLL(_FamilyNLL):
    """The negative log-likelihood of a Normal, in nats, summed over the last axis.

    The standard deviation of the noise is a known number, or part of the model's outputs. In
    the second case the last axis of the outputs is twice as long as that of the targets: it
    has all means, and then the logarithms of all standard deviations. To learn one standard
    deviation for all examples, end the model with `tfvn.layers.LearnedScale()`. To predict
    one for each example, end it with `tfvn.layers.NormalHead(units)`.

    Targets may have the shape `(batch_size,)` instead of `(batch_size, 1)`.

    Args:
        scale: The standard deviation of the noise, or `None` to read it from the
            outputs.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.GaussianNLL(scale=1.0)
    >>> round(float(loss(np.zeros((2, 1)), np.zeros((2, 1)))), 4)
    0.9189
    """

    def __init__(
        self,
        scale: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "gaussian_nll",
        dtype: Any = None,
    ):
        super().__init__(likelihoods.Normal(scale), reduction, name, dtype)

    @property
    def scale(self) -> float | None:
        """The standard deviation, or `None` if the loss reads it from the outputs."""
        return self.likelihood.scale


@keras.saving.register_keras_serializable("tfvn")
class LaplaceNLL(_FamilyNLL):
    """The negative log-likelihood of a Laplace distribution, in nats.

    It is used like `tfvn.losses.GaussianNLL`, with medians and scales instead of means and
    standard deviations. It penalises absolute errors, where `GaussianNLL` penalises squared
    errors.

    Args:
        scale: The scale of the noise, or `None` to read it from the outputs.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.LaplaceNLL(scale=0.5)
    >>> float(loss(np.ones(2), np.zeros((2, 1))))
    2.0
    """

    def __init__(
        self,
        scale: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "laplace_nll",
        dtype: Any = None,
    ):
        super().__init__(likelihoods.Laplace(scale), reduction, name, dtype)


@keras.saving.register_keras_serializable("tfvn")
class StudentTNLL(_FamilyNLL):
    """The negative log-likelihood of a Student-t distribution, in nats.

    It is used like `tfvn.losses.GaussianNLL`, for data with outliers.

    Args:
        df: Degrees of freedom, more than 2.
        scale: The scale of the noise, or `None` to read it from the outputs.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.StudentTNLL(df=4.0, scale=1.0)
    >>> round(float(loss(np.zeros(2), np.zeros((2, 1)))), 4)
    0.9808
    """

    def __init__(
        self,
        df: float = 4.0,
        scale: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "student_t_nll",
        dtype: Any = None,
    ):
        super().__init__(likelihoods.StudentT(df, scale), reduction, name, dtype)


@keras.saving.register_keras_serializable("tfvn")
class LogNormalNLL(_FamilyNLL):
    """The negative log-likelihood of a log-normal distribution, in nats.

    Use it for positive targets such as prices and durations. The outputs describe the
    logarithm of the target: its mean and the logarithm of its standard deviation, as in
    `tfvn.losses.GaussianNLL`. A target that is not positive makes the loss infinite.

    Args:
        scale: The standard deviation of the logarithm, or `None` to read it from the
            outputs.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.LogNormalNLL(scale=1.0)
    >>> round(float(loss(np.ones(2), np.zeros((2, 1)))), 4)
    0.9189
    """

    def __init__(
        self,
        scale: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "log_normal_nll",
        dtype: Any = None,
    ):
        super().__init__(likelihoods.LogNormal(scale), reduction, name, dtype)


@keras.saving.register_keras_serializable("tfvn")
class PoissonNLL(_FamilyNLL):
    """The negative log-likelihood of a Poisson distribution, in nats.

    Use it for counts. The outputs are logarithms of rates. (`keras.losses.Poisson` takes the
    rates themselves, and leaves out the term that does not depend on them.) A target that is
    negative or not an integer makes the loss infinite.

    Args:
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.PoissonNLL()
    >>> float(loss(np.ones(2), np.zeros((2, 1))))
    1.0
    """

    def __init__(
        self,
        reduction: str = "sum_over_batch_size",
        name: str = "poisson_nll",
        dtype: Any = None,
    ):
        super().__init__(likelihoods.Poisson(), reduction, name, dtype)
