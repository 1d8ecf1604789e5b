"""Conv3D layers with a random kernel."""

from typing import Any

import keras

from tfvn.layers.constructors import Preset, given
from tfvn.layers.convolutional.base import StochasticPlainConvolution
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance


@keras.saving.register_keras_serializable("tfvn")
class Conv3D(StochasticPlainConvolution, keras.layers.Conv3D):
    """A `keras.layers.Conv3D` whose kernel is a distribution.

    With the `"local"` estimator each output element has its exact distribution, but
    outputs at different positions, which share weights, are sampled independently.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or three integers, the size of the window.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.Conv3D`.

    Input shape:
        `(batch_size, depth, height, width, channels)`, or with the channels first.

    Output shape:
        `(batch_size, new_depth, new_height, new_width, filters)`, or with the filters
        first.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.Conv3D(4, 3, posterior="variance", padding="same")
    >>> layer(np.ones((2, 4, 4, 4, 1))).shape
    TensorShape([2, 4, 4, 4, 4])
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
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


class VarianceConv3D(Preset, Conv3D, posterior=Variance):
    """A 3D convolution whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or three integers, the size of the window.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Conv3D` and of
            `keras.layers.Conv3D`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.Conv3D`.

    Output shape:
        As `keras.layers.Conv3D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceConv3D(4, 3)
    >>> layer(np.ones((2, 5, 5, 5, 1))).shape
    TensorShape([2, 3, 3, 3, 4])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


class GaussianDropoutConv3D(Preset, Conv3D, posterior=GaussianDropout):
    """A 3D convolution with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or three integers, the size of the window.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv3D` and of
            `keras.layers.Conv3D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv3D`.

    Output shape:
        As `keras.layers.Conv3D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutConv3D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 5, 5, 1))).shape
    TensorShape([2, 3, 3, 3, 4])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """


class MeanFieldConv3D(Preset, Conv3D, posterior=MeanField):
    """A 3D convolution whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or three integers, the size of the window.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv3D` and of
            `keras.layers.Conv3D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv3D`.

    Output shape:
        As `keras.layers.Conv3D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldConv3D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 5, 5, 1))).shape
    TensorShape([2, 3, 3, 3, 4])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """


class KTiedConv3D(Preset, Conv3D, posterior=KTied):
    """A 3D convolution whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or three integers, the size of the window.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv3D` and of
            `keras.layers.Conv3D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv3D`.

    Output shape:
        As `keras.layers.Conv3D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedConv3D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 5, 5, 1))).shape
    TensorShape([2, 3, 3, 3, 4])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
