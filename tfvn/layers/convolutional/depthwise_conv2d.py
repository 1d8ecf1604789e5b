"""Depthwise convolutions with a random kernel."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.constructors import Preset, given
from tfvn.layers.convolutional.base import StochasticConvolution
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class DepthwiseConv2D(StochasticConvolution, keras.layers.DepthwiseConv2D):
    """A `keras.layers.DepthwiseConv2D` whose kernel is a distribution.

    As a matrix, the kernel has a row for each position in the window and a column for
    each output channel. With the `"local"` estimator each output element has its exact
    distribution, but outputs at different positions, which share weights, are sampled
    independently.

    Args:
        kernel_size: Integer or pair of integers, the size of the window.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.DepthwiseConv2D`. Its
            `depthwise_initializer`, `depthwise_regularizer` and `depthwise_constraint`
            act like those of the kernel in other layers.

    Input shape:
        `(batch_size, height, width, channels)`, or with the channels first.

    Output shape:
        `(batch_size, new_height, new_width, channels * depth_multiplier)`, or with the
        channels first.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.DepthwiseConv2D(
    ...     3, posterior="variance", depth_multiplier=2
    ... )
    >>> layer(np.ones((2, 8, 8, 3))).shape
    TensorShape([2, 6, 6, 6])
    """

    kernel_argument = "depthwise"

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = "mean_field",
        prior: Any = "auto",
        estimator: Any = None,
        kl_method: str = "auto",
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**given(locals()))

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        channels = self.check_channels(input_shape)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        return KernelSpec(shape, output_axes=(self.rank, self.rank + 1))

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return keras.ops.depthwise_conv(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        channels = inputs.shape[self.channel_axis]
        rank = left.shape[-1]
        # All channels have the same rows, so they share one thin kernel.
        kernel = keras.ops.reshape(left, (*self.kernel_size, 1, rank))
        kernel = keras.ops.tile(kernel, (1,) * self.rank + (channels, 1))
        outputs = self.linear_op(inputs, kernel)
        weights = keras.ops.reshape(right, (rank, channels, self.depth_multiplier))
        return self.mix_channels(outputs, keras.ops.swapaxes(weights, 0, 1))


class VarianceDepthwiseConv2D(Preset, DepthwiseConv2D, posterior=Variance):
    """A depthwise 2D convolution whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        kernel_size: Integer or pair of integers, the size of the window.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.DepthwiseConv2D` and of
            `keras.layers.DepthwiseConv2D`; `depthwise_initializer` gives the initial
            scales.

    Input shape:
        As `keras.layers.DepthwiseConv2D`.

    Output shape:
        As `keras.layers.DepthwiseConv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceDepthwiseConv2D(3)
    >>> layer(np.ones((2, 8, 8, 2))).shape
    TensorShape([2, 6, 6, 2])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


class GaussianDropoutDepthwiseConv2D(
    Preset, DepthwiseConv2D, posterior=GaussianDropout
):
    """A depthwise 2D convolution with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        kernel_size: Integer or pair of integers, the size of the window.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.DepthwiseConv2D` and of
            `keras.layers.DepthwiseConv2D`; `depthwise_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.DepthwiseConv2D`.

    Output shape:
        As `keras.layers.DepthwiseConv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDepthwiseConv2D(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 2))).shape
    TensorShape([2, 6, 6, 2])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """


class MeanFieldDepthwiseConv2D(Preset, DepthwiseConv2D, posterior=MeanField):
    """A depthwise 2D convolution whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        kernel_size: Integer or pair of integers, the size of the window.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.DepthwiseConv2D` and of
            `keras.layers.DepthwiseConv2D`; `depthwise_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.DepthwiseConv2D`.

    Output shape:
        As `keras.layers.DepthwiseConv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDepthwiseConv2D(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 2))).shape
    TensorShape([2, 6, 6, 2])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """


class KTiedDepthwiseConv2D(Preset, DepthwiseConv2D, posterior=KTied):
    """A depthwise 2D convolution whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        kernel_size: Integer or pair of integers, the size of the window.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.DepthwiseConv2D` and of
            `keras.layers.DepthwiseConv2D`; `depthwise_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.DepthwiseConv2D`.

    Output shape:
        As `keras.layers.DepthwiseConv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedDepthwiseConv2D(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 2))).shape
    TensorShape([2, 6, 6, 2])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
