"""Transposed convolutions with a random kernel."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.constructors import Preset, given
from tfvn.layers.convolutional.base import StochasticConvolution
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class Conv2DTranspose(StochasticConvolution, keras.layers.Conv2DTranspose):
    """A `keras.layers.Conv2DTranspose` whose kernel is a distribution.

    With the `"local"` estimator each output element has its exact distribution, but
    outputs at different positions, which share weights, are sampled independently.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.Conv2DTranspose`.

    Input shape:
        `(batch_size, height, width, channels)`, or with the channels first.

    Output shape:
        `(batch_size, new_height, new_width, filters)`, or with the filters first.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.Conv2DTranspose(4, 3, posterior="variance", strides=2)
    >>> layer(np.ones((2, 4, 4, 1))).shape
    TensorShape([2, 9, 9, 4])
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
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
        shape = (*self.kernel_size, self.filters, channels)
        return KernelSpec(shape, output_axes=(self.rank,))

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return keras.ops.conv_transpose(
            inputs,
            kernel,
            strides=list(self.strides),
            padding=self.padding,
            output_padding=self.output_padding,
            dilation_rate=self.dilation_rate,
            data_format=self.data_format,
        )

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        channels = inputs.shape[self.channel_axis]
        kernel = keras.ops.reshape(left, (*self.kernel_size, channels, -1))
        outputs = self.linear_op(inputs, keras.ops.swapaxes(kernel, -1, -2))
        return self.mix_channels(outputs, right[None])


class VarianceConv2DTranspose(Preset, Conv2DTranspose, posterior=Variance):
    """A transposed 2D convolution whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Conv2DTranspose` and of
            `keras.layers.Conv2DTranspose`; `kernel_initializer` gives the initial
            scales.

    Input shape:
        As `keras.layers.Conv2DTranspose`.

    Output shape:
        As `keras.layers.Conv2DTranspose`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceConv2DTranspose(4, 3, strides=2)
    >>> layer(np.ones((2, 4, 4, 1))).shape
    TensorShape([2, 9, 9, 4])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


class GaussianDropoutConv2DTranspose(
    Preset, Conv2DTranspose, posterior=GaussianDropout
):
    """A transposed 2D convolution with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv2DTranspose` and of
            `keras.layers.Conv2DTranspose`; `kernel_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.Conv2DTranspose`.

    Output shape:
        As `keras.layers.Conv2DTranspose`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutConv2DTranspose(4, 3, strides=2, kl_weight=1e-3)
    >>> layer(np.ones((2, 4, 4, 1))).shape
    TensorShape([2, 9, 9, 4])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """


class MeanFieldConv2DTranspose(Preset, Conv2DTranspose, posterior=MeanField):
    """A transposed 2D convolution whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv2DTranspose` and of
            `keras.layers.Conv2DTranspose`; `kernel_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.Conv2DTranspose`.

    Output shape:
        As `keras.layers.Conv2DTranspose`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldConv2DTranspose(4, 3, strides=2, kl_weight=1e-3)
    >>> layer(np.ones((2, 4, 4, 1))).shape
    TensorShape([2, 9, 9, 4])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """


class KTiedConv2DTranspose(Preset, Conv2DTranspose, posterior=KTied):
    """A transposed 2D convolution whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv2DTranspose` and of
            `keras.layers.Conv2DTranspose`; `kernel_initializer` gives the initial
            means.

    Input shape:
        As `keras.layers.Conv2DTranspose`.

    Output shape:
        As `keras.layers.Conv2DTranspose`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedConv2DTranspose(4, 3, strides=2, kl_weight=1e-3)
    >>> layer(np.ones((2, 4, 4, 1))).shape
    TensorShape([2, 9, 9, 4])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
