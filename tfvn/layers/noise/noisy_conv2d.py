"""Convolutions with multiplicative noise."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.distributions import serialize
from tfvn.estimators.terms import add
from tfvn.layers.constructors import given
from tfvn.layers.noise.base import NoisyKernelLayer, multiply
from tfvn.utils.validation import check_choice

Tensor = Any

STRUCTURES = ("channels", "filters", "channels_and_filters")


@keras.saving.register_keras_serializable("tfvn")
class NoisyConv2D(NoisyKernelLayer, keras.layers.Conv2D):
    """A `keras.layers.Conv2D` with multiplicative noise on its kernel.

    All positions of a window share their noise, which keeps the layer equivariant to
    translations. The layer draws the noise once per forward pass for the whole batch.

    - `structure="channels"`: one factor for each pair of a channel and a filter, so that
      a filter can ignore a channel.
    - `"filters"`: one factor for each filter. With Bernoulli noise it is spatial dropout of
      the outputs, before the bias.
    - `"channels_and_filters"`: the product of both.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        noise: Distribution of the noise, see `tfvn.MultiplicativeNoise`.
        structure: `"channels"`, `"filters"` or `"channels_and_filters"`.
        filter_noise: Distribution of the filter factor in the joint structure; `None` is `noise`.
        normalize: See `tfvn.NoisyDense`, also for `prior_scale`, `kl_weight` and `seed`.
        **kwargs: Every other argument of `keras.layers.Conv2D`.

    Call arguments:
        inputs: Tensor of rank 4.
        training: Whether to draw noise. Ensembles draw it at inference too.

    Input shape:
        As `keras.layers.Conv2D`.

    Output shape:
        As `keras.layers.Conv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.NoisyConv2D(4, 3, structure="filters")
    >>> layer(np.ones((2, 8, 8, 1)), training=True).shape
    TensorShape([2, 6, 6, 4])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), equations 21 to 25
    - [Tompson et al., 2015](https://arxiv.org/abs/1411.4280), section 3.2
    """

    noise_per_example = False

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        noise: Any = "bernoulli",
        structure: str = "channels",
        filter_noise: Any = None,
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**given(locals(), "structure", "filter_noise"))
        self.structure = check_choice("structure", structure, STRUCTURES)
        self.filter_source = self.second_source(
            "filter_noise", filter_noise, "channels_and_filters"
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        self.add_kl(self.negative_log_prior, training)
        inputs = self.as_floats(inputs)
        kernel = tf.convert_to_tensor(self.kernel)
        _, _, channels, filters = kernel.shape
        if self.structure != "filters":
            factors = self.factors((1, 1, channels, filters), training)
            kernel = multiply(kernel, factors)
        if self.structure != "channels":
            factors = self.factors((1, 1, 1, filters), training, self.filter_source)
            kernel = multiply(kernel, factors)
        outputs = self.convolution_op(inputs, kernel)
        if self.bias is not None:
            shape = [-1, 1, 1] if self.data_format == "channels_first" else [-1]
            outputs = add(outputs, keras.ops.reshape(self.bias, shape))
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def get_config(self) -> dict[str, Any]:
        same = self.filter_source is self.source
        return {
            **super().get_config(),
            "structure": self.structure,
            "filter_noise": None if same else serialize(self.filter_source.law),
        }
