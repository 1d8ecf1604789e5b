"""Convolutions with a random kernel."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.base import StochasticLayer
from tfvn.layers.presets import MeanFieldPreset, VariancePreset

Tensor = Any


class StochasticConvolution(StochasticLayer):
    """What convolutions of every rank share; to be mixed with a Keras one."""

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        channel_axis = -1 if self.data_format == "channels_last" else 1
        channels = input_shape[channel_axis]
        if channels is None:
            raise ValueError(
                f"The channel dimension of the inputs to `{type(self).__name__}` must "
                f"be defined. Received: input_shape={input_shape}"
            )
        if channels % self.groups != 0:
            raise ValueError(
                "The number of input channels must be evenly divisible by `groups`. "
                f"Received: groups={self.groups} and input_shape={input_shape}"
            )
        # It refuses inputs that are too small for the kernel.
        self.compute_output_shape(input_shape)
        self.input_spec = keras.InputSpec(
            min_ndim=self.rank + 2, axes={channel_axis: channels}
        )
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        return KernelSpec(shape, output_axes=(self.rank + 1,))

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return self.convolution_op(inputs, kernel)

    def expand_bias(self, bias: Tensor) -> Tensor:
        if self.data_format == "channels_last":
            return bias
        return keras.ops.reshape(bias, (-1,) + (1,) * self.rank)


@keras.saving.register_keras_serializable("tfvn")
class Conv2D(StochasticConvolution, keras.layers.Conv2D):
    """A `keras.layers.Conv2D` whose kernel is a distribution.

    With the `"local"` estimator each output element has its exact distribution, but
    the covariance between positions, which share weights, is dropped.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        posterior: See `tfvn.layers.Dense`, as are `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.Conv2D`.

    Input shape:
        `(batch_size, height, width, channels)`, or
        `(batch_size, channels, height, width)` with
        `data_format="channels_first"`.

    Output shape:
        `(batch_size, new_height, new_width, filters)`, or with the filters first.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.Conv2D(4, 3, posterior="variance", padding="same")
    >>> layer(np.ones((2, 8, 8, 1))).shape
    TensorShape([2, 8, 8, 4])
    """


@keras.saving.register_keras_serializable("tfvn")
class VarianceConv2D(VariancePreset, Conv2D):
    """A 2D convolution whose weights have mean zero and learned variances.

    See `tfvn.VarianceDense` for what such a layer is.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        noise: Law of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Conv2D` and of
            `keras.layers.Conv2D`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.Conv2D`.

    Output shape:
        As `keras.layers.Conv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceConv2D(4, 3, strides=2, activation="relu")
    >>> layer(np.ones((2, 9, 9, 1))).shape
    TensorShape([2, 4, 4, 4])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


@keras.saving.register_keras_serializable("tfvn")
class MeanFieldConv2D(MeanFieldPreset, Conv2D):
    """A 2D convolution whose weights are independent Normals.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv2D` and of
            `keras.layers.Conv2D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv2D`.

    Output shape:
        As `keras.layers.Conv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldConv2D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 1))).shape
    TensorShape([2, 6, 6, 4])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 2
    """
