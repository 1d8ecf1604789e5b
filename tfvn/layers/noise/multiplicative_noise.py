"""Multiplicative noise on the units of a layer."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.layers.noise.base import NoiseLayer, multiply
from tfvn.utils.validation import check_count

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class MultiplicativeNoise(NoiseLayer):
    """Multiplies each unit by noise: `keras.layers.Dropout` for any law.

    Noise on a unit acts like noise on its row of the next kernel. A weight of `N(0, s^2)`
    times the noise is a scale mixture, so training with the noise looks for the mode
    under a prior of automatic relevance determination, which keeps or removes all weights
    of a unit together. `tfvn.distributions.marginal_prior` returns this prior.

    Hron et al. showed that noise shared by a row is degenerate as a posterior of the
    weights: its mass is on the directions of the weights, and its KL to a log-uniform
    prior is infinite. As a posterior of the noise alone it is sound, but then nothing
    regularises the weights, and they may overfit.

    Args:
        noise: Distribution of the noise: `"bernoulli"`, `"gaussian"`, `"rayleigh"`,
            `"inverse_nakagami"`, `"half_cauchy"`, one of these with parameters from
            `tfvn.distributions.noise_law`, or a scalar `tfd.Distribution`.
        noise_shape: Shape of the noise, which is repeated along axes of size 1. `None` is
            the shape of the inputs, and `None` for an axis is the size of that axis.
        normalize: Whether to divide the noise by its mean, or by its median if it has no
            mean, so that the layer does nothing at inference.
        seed: Integer seed of the noise.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor of any rank.
        training: Whether to draw noise. Ensembles draw it at inference too.

    Input shape:
        Any.

    Output shape:
        That of the inputs.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> law = tfvn.distributions.noise_law("gaussian", stddev=0.3)
    >>> layer = tfvn.MultiplicativeNoise(law)
    >>> float(layer(np.ones((1, 1)))[0, 0])
    1.0
    >>> layer(np.ones((2, 3)), training=True).shape
    TensorShape([2, 3])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), section 3
    - [Hron et al., 2017](https://arxiv.org/abs/1711.02989), section 3
    """

    def __init__(
        self,
        noise: Any = "bernoulli",
        noise_shape: tuple[int | None, ...] | None = None,
        normalize: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(noise=noise, normalize=normalize, seed=seed, **kwargs)
        self.noise_shape = _check_noise_shape(noise_shape)
        self.supports_masking = True
        self.built = type(self).build is keras.Layer.build

    @property
    def noise_per_example(self) -> bool:  # type: ignore[override]
        """Whether the examples of a batch get independent noise."""
        return self.noise_shape is None or self.noise_shape[0] != 1

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = self.as_floats(inputs)
        shape = tf.shape(inputs)
        if self.noise_shape is not None:
            if len(self.noise_shape) != len(inputs.shape):
                raise ValueError(
                    "Argument `noise_shape` must have an entry for each of the "
                    f"{len(inputs.shape)} axes of the inputs, with the batch as the "
                    f"first. Received: noise_shape={self.noise_shape} and "
                    f"inputs.shape={tuple(inputs.shape)}"
                )
            sizes = enumerate(self.noise_shape)
            shape = tf.stack([shape[i] if size is None else size for i, size in sizes])
        return multiply(inputs, self.factors(shape, training))

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "noise_shape": self.noise_shape}


def _check_noise_shape(noise_shape: Any) -> tuple[int | None, ...] | None:
    if noise_shape is None:
        return None
    if not isinstance(noise_shape, list | tuple):
        raise ValueError(
            "Argument `noise_shape` must be `None`, or a sequence in which every entry "
            f"is a positive integer or `None`. Received: noise_shape={noise_shape!r}"
        )
    return tuple(
        check_count(f"noise_shape[{axis}]", size, or_none=True)
        for axis, size in enumerate(noise_shape)
    )
