# Written by `make stubs`; do not edit.
from typing import Any

from tfvn.layers.base import RandomWeightsLayer as RandomWeightsLayer
from tfvn.layers.constructors import Preset as Preset
from tfvn.layers.convolutional.conv1d import Conv1D as _Conv1D
from tfvn.layers.convolutional.conv2d import Conv2D as _Conv2D
from tfvn.layers.convolutional.conv2d_transpose import Conv2DTranspose as _Conv2DTranspose
from tfvn.layers.convolutional.conv3d import Conv3D as _Conv3D
from tfvn.layers.convolutional.depthwise_conv2d import DepthwiseConv2D as _DepthwiseConv2D
from tfvn.layers.core.dense import Dense as _Dense
from tfvn.layers.core.einsum_dense import EinsumDense as _EinsumDense
from tfvn.layers.feed_forward import StochasticLayer as StochasticLayer
from tfvn.layers.heads import LearnedScale as _LearnedScale
from tfvn.layers.heads import LikelihoodHead as LikelihoodHead
from tfvn.layers.heads import NormalHead as NormalHead
from tfvn.layers.noise.multiplicative_noise import MultiplicativeNoise as _MultiplicativeNoise
from tfvn.layers.noise.noisy_conv2d import NoisyConv2D as _NoisyConv2D
from tfvn.layers.noise.noisy_dense import NoisyDense as _NoisyDense
from tfvn.layers.noise.noisy_lstm import NoisyLSTM as _NoisyLSTM
from tfvn.layers.noise.noisy_lstm import NoisyLSTMCell as _NoisyLSTMCell
from tfvn.layers.noise.noisy_residual import NoisyResidual as _NoisyResidual
from tfvn.layers.recurrent.base_cell import StochasticRNNCell as StochasticRNNCell
from tfvn.layers.recurrent.base_layer import StochasticRNN as StochasticRNN
from tfvn.layers.recurrent.gru import GRU as _GRU
from tfvn.layers.recurrent.gru_cell import GRUCell as _GRUCell
from tfvn.layers.recurrent.lstm import LSTM as _LSTM
from tfvn.layers.recurrent.lstm_cell import LSTMCell as _LSTMCell

class GRU(_GRU):
    """A `keras.layers.GRU` whose kernels are distributions.

    The layer samples the kernel and the recurrent kernel once per batch of sequences and
    uses them in every step, in training and at inference; see `tfvn.layers.GRUCell`. The
    random weights, their KL and its weight belong to `layer.cell`.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: The learned distribution of the kernels: `"mean_field"`, `"k_tied"`,
            `"gaussian_dropout"`, `"variance"`, or an instance of `tfvn.posteriors`; each
            kernel gets a copy.
        prior: The distribution that the KL compares the posteriors with: `"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`, a `tfd.Distribution` that broadcasts to both kernels, or
            `None` for no KL. `"auto"` is the default of the posterior.
        estimator: How the layer samples its outputs: `"weights"` (the default),
            `"flipout"` or `"mean"`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise and of the dropout.
        **kwargs: Every other argument of `keras.layers.GRU`. `recurrent_initializer`
            defaults to orthogonal, and in a variance layer to the default of the
            posterior.

    Call arguments:
        As `keras.layers.GRU`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.GRU`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.GRU(3, posterior="mean_field", kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])
    >>> layer.posterior_distribution("recurrent_kernel").batch_shape
    TensorShape([3, 9])

    Reference:

    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = 'auto',
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class LSTM(_LSTM):
    """A `keras.layers.LSTM` whose kernels are distributions.

    The layer samples the kernel and the recurrent kernel once per batch of sequences and
    uses them in every step, in training and at inference; see `tfvn.layers.LSTMCell`. The
    random weights, their KL and its weight belong to `layer.cell`.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: The learned distribution of the kernels: `"mean_field"`, `"k_tied"`,
            `"gaussian_dropout"`, `"variance"`, or an instance of `tfvn.posteriors`; each
            kernel gets a copy.
        prior: The distribution that the KL compares the posteriors with: `"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`, a `tfd.Distribution` that broadcasts to both kernels, or
            `None` for no KL. `"auto"` is the default of the posterior.
        estimator: How the layer samples its outputs: `"weights"` (the default),
            `"flipout"` or `"mean"`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise and of the dropout.
        **kwargs: Every other argument of `keras.layers.LSTM`. `recurrent_initializer`
            defaults to orthogonal, and in a variance layer to the default of the
            posterior.

    Call arguments:
        As `keras.layers.LSTM`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.LSTM(3, posterior="mean_field", kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])
    >>> layer.posterior_distribution("recurrent_kernel").batch_shape
    TensorShape([3, 12])

    Reference:

    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class Conv1D(_Conv1D):
    """A `keras.layers.Conv1D` whose kernel is a distribution.

    With the `"local"` estimator each output element has its exact distribution, but
    outputs at different positions, which share weights, are sampled independently.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer, the size of the window.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.Conv1D`, with the paddings
            `"valid"`, `"same"` and `"causal"`.

    Input shape:
        `(batch_size, steps, channels)`, or with the channels first.

    Output shape:
        `(batch_size, new_steps, filters)`, or with the filters first.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.Conv1D(4, 3, posterior="variance", padding="causal")
    >>> layer(np.ones((2, 8, 1))).shape
    TensorShape([2, 8, 4])
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class Conv2D(_Conv2D):
    """A `keras.layers.Conv2D` whose kernel is a distribution.

    With the `"local"` estimator each output element has its exact distribution, but
    outputs at different positions, which share weights, are sampled independently.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class Conv2DTranspose(_Conv2DTranspose):
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
        padding: str = 'valid',
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class Conv3D(_Conv3D):
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
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class Dense(_Dense):
    """A `keras.layers.Dense` whose kernel is a distribution.

    It computes `activation(inputs @ kernel + bias)`, and samples a new kernel in every
    call, in training and at inference.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: The learned distribution of the kernel: `"mean_field"`, `"k_tied"`,
            `"gaussian_dropout"`, `"variance"`, or an instance of `tfvn.posteriors`.
        prior: The distribution that the KL compares the posterior with: `"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`, a `tfd.Distribution` that broadcasts to the kernel, or
            `None` for no KL. `"auto"` is the default of the posterior. If a
            `tf.Variable`, a `keras.Variable` or a `tfp.util.TransformedVariable` is among
            its parameters, the layer trains it, in the variable group `"prior"`.
        estimator: How the layer samples its outputs: `"local"`, `"flipout"`, `"weights"`
            or `"mean"`. `None` is the default for the posterior.
        kl_method: `"analytic"`, `"monte_carlo"` (one sample; that of the forward pass if
            the estimator samples kernels), or `"auto"`, which is analytic if there is a
            closed form.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`. `None` is for a `tfvn.Model`,
            which finds it; in a stock Keras model it acts as 1, with a warning.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise. `None` takes a seed that depends on
            `keras.utils.set_random_seed`.
        **kwargs: Every other argument of `keras.layers.Dense`. Its `kernel_initializer`,
            `kernel_regularizer` and `kernel_constraint` act on the variable that replaces
            the kernel: the means or, in a variance layer, the scales.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., units)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.Dense(3, posterior="mean_field", kl_weight=1e-3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])
    >>> layer.posterior_distribution().batch_shape
    TensorShape([4, 3])
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class DepthwiseConv2D(_DepthwiseConv2D):
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
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class EinsumDense(_EinsumDense):
    """A `keras.layers.EinsumDense` whose kernel is a distribution.

    As a matrix, the kernel has a row for each entry of the axes it shares with the input,
    and a column for each entry of the axes that only the output has. The layer refuses an
    equation without such an axis.

    Args:
        equation: Einsum equation, for example `"abc,cd->abd"` or `"...x,xy->...y"`.
        output_shape: Shape of the output without the batch and without the axes of an
            ellipsis.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.EinsumDense`.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.EinsumDense(
    ...     "btd,dnh->btnh", output_shape=(None, 2, 3), bias_axes="nh", kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 2, 3])
    """
    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GRUCell(_GRUCell):
    """A `keras.layers.GRUCell` whose kernels are distributions.

    The cell samples the kernel and the recurrent kernel before the first step of a
    sequence and uses them in every step, in training and at inference. It works in a
    `keras.layers.RNN`, alone or stacked. If you call the cell directly, it samples for
    that one step.

    `estimator="weights"` samples one pair of kernels for the whole batch. `"flipout"`
    flips the signs of their noise for each example, and keeps the signs during the
    sequence.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: The learned distribution of the kernels: `"mean_field"`, `"k_tied"`,
            `"gaussian_dropout"`, `"variance"`, or an instance of `tfvn.posteriors`; each
            kernel gets a copy.
        prior: The distribution that the KL compares the posteriors with: `"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`, a `tfd.Distribution` that broadcasts to both kernels, or
            `None` for no KL. `"auto"` is the default of the posterior.
        estimator: How the layer samples its outputs: `"weights"` (the default),
            `"flipout"` or `"mean"`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise and of the dropout.
        **kwargs: Every other argument of `keras.layers.GRUCell`. `recurrent_initializer`
            defaults to orthogonal, and in a variance cell to the default of the
            posterior.

    Call arguments:
        As `keras.layers.GRUCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> cell = tfvn.layers.GRUCell(3, posterior="k_tied", kl_weight=1e-3)
    >>> keras.layers.RNN(cell)(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])
    >>> cell.posterior_distribution("recurrent_kernel").batch_shape
    TensorShape([3, 9])

    Reference:

    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class LSTMCell(_LSTMCell):
    """A `keras.layers.LSTMCell` whose kernels are distributions.

    The cell samples the kernel and the recurrent kernel before the first step of a
    sequence and uses them in every step, in training and at inference. It works in a
    `keras.layers.RNN`, alone or stacked. If you call the cell directly, it samples for
    that one step.

    `estimator="weights"` samples one pair of kernels for the whole batch. `"flipout"`
    flips the signs of their noise for each example, and keeps the signs during the
    sequence.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: The learned distribution of the kernels: `"mean_field"`, `"k_tied"`,
            `"gaussian_dropout"`, `"variance"`, or an instance of `tfvn.posteriors`; each
            kernel gets a copy.
        prior: The distribution that the KL compares the posteriors with: `"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`, a `tfd.Distribution` that broadcasts to both kernels, or
            `None` for no KL. `"auto"` is the default of the posterior.
        estimator: How the layer samples its outputs: `"weights"` (the default),
            `"flipout"` or `"mean"`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise and of the dropout.
        **kwargs: Every other argument of `keras.layers.LSTMCell`. `recurrent_initializer`
            defaults to orthogonal, and in a variance cell to the default of the
            posterior.

    Call arguments:
        As `keras.layers.LSTMCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> cell = tfvn.layers.LSTMCell(3, posterior="k_tied", kl_weight=1e-3)
    >>> keras.layers.RNN(cell)(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])
    >>> cell.posterior_distribution("recurrent_kernel").batch_shape
    TensorShape([3, 12])

    Reference:

    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        posterior: Any = 'mean_field',
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class LearnedScale(_LearnedScale):
    """Appends the logarithms of learned standard deviations to its inputs.

    Use it as the last layer of a regression model that is trained with
    `tfvn.losses.GaussianNLL()`. It learns one standard deviation for each output, the
    same for all examples. From this layer, predictions know that the outputs are means
    and logarithms of standard deviations.

    Args:
        initial_scale: Initial value of the standard deviations.
        **kwargs: Arguments of `keras.layers.Layer`.

    Input shape:
        `(batch_size, ..., size)`.

    Output shape:
        `(batch_size, ..., 2 * size)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> outputs = tfvn.layers.LearnedScale(initial_scale=2.0)(np.ones((1, 2)))
    >>> print(np.round(outputs.numpy(), 2))
    [[1.   1.   0.69 0.69]]
    """
    def __init__(
        self,
        initial_scale: float = 1.0,
        *,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MultiplicativeNoise(_MultiplicativeNoise):
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
        noise: Any = 'bernoulli',
        noise_shape: tuple[int | None, ...] | None = None,
        normalize: bool = True,
        seed: int | None = None,
        *,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class NoisyConv2D(_NoisyConv2D):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = 'glorot_uniform',
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        noise: Any = 'bernoulli',
        structure: str = 'channels',
        filter_noise: Any = None,
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class NoisyDense(_NoisyDense):
    """A `keras.layers.Dense` with multiplicative noise on its inputs or its weights.

    With `structure="ard"` each input is multiplied by noise, independently for each
    example: `activation((inputs * noise) @ kernel + bias)`, dropout if the noise is
    Bernoulli. With `"dropconnect"` each weight has its own noise, drawn once per forward
    pass for the whole batch: `activation(inputs @ (noise * kernel) + bias)`.

    Hron et al. showed that noise shared by a row is degenerate as a posterior of the
    weights: its mass is on the directions of the weights, and its KL to a log-uniform
    prior is infinite. As a posterior of the noise alone it is sound, but then only
    `prior_scale` regularises the weights.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the noise, see `tfvn.MultiplicativeNoise`.
        structure: `"ard"` or `"dropconnect"`.
        normalize: Whether to divide the noise by its mean, or by its median if it has no
            mean, so that the layer equals the Keras layer at inference.
        prior_scale: Standard deviation of the Normal factor of the prior, which adds
            weight decay of the kernel, `sum(w^2) / (2 prior_scale^2)`, to the loss, or
            `None`. A `tfvn.Model` divides it by the number of training examples, like a
            KL.
        kl_weight: Factor of that term; in a stock Keras model, with a loss that is a mean
            over examples, `1 / number_of_training_examples`.
        seed: Integer seed of the noise.
        **kwargs: Every other argument of `keras.layers.Dense`.

    Call arguments:
        inputs: Tensor of rank 2 or more.
        training: Whether to draw noise. Ensembles draw it at inference too.

    Input shape:
        As `keras.layers.Dense`.

    Output shape:
        As `keras.layers.Dense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.NoisyDense(3, noise="rayleigh", structure="dropconnect")
    >>> layer(np.ones((2, 4)), training=True).shape
    TensorShape([2, 3])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), section 3
    - [Wan et al., 2013](https://proceedings.mlr.press/v28/wan13.html)
    - [Hron et al., 2017](https://arxiv.org/abs/1711.02989), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = 'glorot_uniform',
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        noise: Any = 'bernoulli',
        structure: str = 'ard',
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        seed: int | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class NoisyLSTM(_NoisyLSTM):
    """A `keras.layers.LSTM` with multiplicative noise on its inputs.

    The layer draws the noise once per sequence, independently for each example, and uses
    it in all steps; the hidden state has no noise. With `gates="tied"` an input has one
    factor for all gates, so that it is used in all or none of them; with `"untied"` it
    has one factor for each gate. The layer does not use the cuDNN kernel, which cannot
    apply such noise.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the noise, see `tfvn.MultiplicativeNoise`.
        gates: `"tied"` or `"untied"`.
        normalize: Whether to divide the noise by its mean, or by its median if it has no
            mean, so that the layer equals the Keras layer at inference.
        prior_scale: Standard deviation of the Normal factor of the prior of both kernels,
            or `None`; see `tfvn.NoisyDense`.
        kl_weight: Factor of the term that `prior_scale` adds to the loss.
        **kwargs: Every other argument of `keras.layers.LSTM`.

    Call arguments:
        sequences: As in `keras.layers.LSTM`.
        mask: As in `keras.layers.LSTM`.
        training: Whether to draw noise. Ensembles draw it at inference too.
        initial_state: As in `keras.layers.LSTM`.

    Input shape:
        As `keras.layers.LSTM`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.NoisyLSTM(3, noise="gaussian", return_sequences=True)
    >>> layer(np.ones((2, 5, 4)), training=True).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), equations 17 to 20
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = 'glorot_uniform',
        recurrent_initializer: Any = 'orthogonal',
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        noise: Any = 'bernoulli',
        gates: str = 'tied',
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class NoisyLSTMCell(_NoisyLSTMCell):
    """A `keras.layers.LSTMCell` with multiplicative noise on its inputs.

    Inside a `keras.layers.RNN` the cell draws the noise once per sequence, independently
    for each example, and uses it in all steps; the hidden state has no noise. If you call
    the cell directly, it draws for that one step; if another layer calls it, it draws
    once per call of that layer. See `tfvn.NoisyLSTM`.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the noise, see `tfvn.MultiplicativeNoise`.
        gates: `"tied"` or `"untied"`.
        normalize: See `tfvn.NoisyDense`, also for `prior_scale`, `kl_weight` and `seed`.
        **kwargs: Every other argument of `keras.layers.LSTMCell`.

    Call arguments:
        inputs: A step, of shape `(batch_size, input_dim)`.
        states: The hidden state and the cell state.
        training: Whether to draw noise. Ensembles draw it at inference too.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.NoisyLSTMCell(3, gates="untied"))
    >>> layer(np.ones((2, 5, 4)), training=True).shape
    TensorShape([2, 3])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), equations 17 to 20
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = 'glorot_uniform',
        recurrent_initializer: Any = 'orthogonal',
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        noise: Any = 'bernoulli',
        gates: str = 'tied',
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class NoisyResidual(_NoisyResidual):
    """A residual connection around a block whose inputs are noisy: `x + block(noise * x)`.

    With `structure="depth"` an example has one factor, which scales all weights that read
    the inputs. If it is zero, a block without biases is skipped; if the block is a single
    ReLU layer and the noise Bernoulli, this is stochastic depth. With `"ard"` each unit
    has a factor, and `"depth_and_ard"` is the product of both. The noise is independent
    for each example.

    Args:
        block: A layer, or a model, whose outputs have the shape of its inputs.
        noise: Distribution of the noise, see `tfvn.MultiplicativeNoise`.
        structure: `"depth"`, `"ard"` or `"depth_and_ard"`.
        depth_noise: Distribution of the depth factor in the joint structure; `None` is `noise`.
        normalize: Whether to divide the noise by its mean, or by its median if it has no
            mean, so that this is a plain residual connection at inference.
        seed: Integer seed of the noise.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: A tensor, the input of the block.
        mask: The mask for the block, if it takes one.
        training: Whether to draw noise. Ensembles draw it at inference too.

    Input shape:
        That of the block.

    Output shape:
        That of the inputs.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> block = keras.layers.Dense(4, activation="relu", use_bias=False)
    >>> layer = tfvn.NoisyResidual(block, noise="bernoulli", structure="depth")
    >>> layer(np.ones((2, 4)), training=True).shape
    TensorShape([2, 4])

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), equations 13 to 15
    - [Huang et al., 2016](https://arxiv.org/abs/1603.09382)
    """
    def __init__(
        self,
        block: Any,
        noise: Any = 'bernoulli',
        structure: str = 'depth',
        depth_noise: Any = None,
        normalize: bool = True,
        seed: int | None = None,
        *,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutConv1D(Preset, Conv1D):
    """A 1D convolution with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer, the size of the window.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv1D` and of
            `keras.layers.Conv1D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv1D`.

    Output shape:
        As `keras.layers.Conv1D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutConv1D(4, 3, padding="causal", kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 1))).shape
    TensorShape([2, 8, 4])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutConv2D(Preset, Conv2D):
    """A 2D convolution with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
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
    >>> layer = tfvn.GaussianDropoutConv2D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 1))).shape
    TensorShape([2, 6, 6, 4])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutConv2DTranspose(Preset, Conv2DTranspose):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutConv3D(Preset, Conv3D):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutDense(Preset, Dense):
    """A dense layer with learned Gaussian noise on its weights.

    A weight is `N(mean, alpha mean^2)`. With the default prior, the log-uniform, the KL
    increases `alpha` until the data stop it. If the whole layer shares one `alpha`, the
    data often do not stop it, and the layer turns into a variance layer. Adam moves log
    alpha by about its learning rate per step; to see this soon, give the scale group its
    own learning rate of about 1e-2.

    Args:
        units: Positive integer, dimensionality of the output.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Dense`.

    Output shape:
        As `keras.layers.Dense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDense(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutDepthwiseConv2D(Preset, DepthwiseConv2D):
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
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutEinsumDense(Preset, EinsumDense):
    """A dense einsum layer with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """
    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class GaussianDropoutGRU(Preset, GRU):
    """A GRU layer with learned Gaussian noise on its weights.

    A weight is `N(mean, alpha mean^2)`. The kernel and the recurrent kernel have an `alpha`
    each, or several.

    Args:
        units: Positive integer, dimensionality of the output.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRU` and of
            `keras.layers.GRU`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRU`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.GRU`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutGRU(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class GaussianDropoutGRUCell(Preset, GRUCell):
    """A GRU cell with learned Gaussian noise on its weights.

    A weight is `N(mean, alpha mean^2)`. The kernel and the recurrent kernel have an `alpha`
    each, or several.

    Args:
        units: Positive integer, dimensionality of the output.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRUCell` and of
            `keras.layers.GRUCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRUCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.GaussianDropoutGRUCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class GaussianDropoutLSTM(Preset, LSTM):
    """An LSTM layer with learned Gaussian noise on its weights.

    A weight is `N(mean, alpha mean^2)`. The kernel and the recurrent kernel have an `alpha`
    each, or several.

    Args:
        units: Positive integer, dimensionality of the output.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTM` and of
            `keras.layers.LSTM`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTM`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutLSTM(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class GaussianDropoutLSTMCell(Preset, LSTMCell):
    """An LSTM cell with learned Gaussian noise on its weights.

    A weight is `N(mean, alpha mean^2)`. The kernel and the recurrent kernel have an `alpha`
    each, or several.

    Args:
        units: Positive integer, dimensionality of the output.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTMCell` and of
            `keras.layers.LSTMCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTMCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.GaussianDropoutLSTMCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        alpha: str | None = None,
        parameterization: str = 'multiplicative',
        initial_log_alpha: float = -5.0,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class KTiedConv1D(Preset, Conv1D):
    """A 1D convolution whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer, the size of the window.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv1D` and of
            `keras.layers.Conv1D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv1D`.

    Output shape:
        As `keras.layers.Conv1D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedConv1D(4, 3, padding="causal", kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 1))).shape
    TensorShape([2, 8, 4])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedConv2D(Preset, Conv2D):
    """A 2D convolution whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
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
    >>> layer = tfvn.KTiedConv2D(4, 3, kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 8, 1))).shape
    TensorShape([2, 6, 6, 4])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedConv2DTranspose(Preset, Conv2DTranspose):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedConv3D(Preset, Conv3D):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedDense(Preset, Dense):
    """A dense layer whose weights are Normals with scales of low rank.

    The standard deviations of the kernel form a matrix of low rank, so the layer has only
    a few more parameters than a deterministic one, and trains faster than a mean-field
    layer. The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`.

    Args:
        units: Positive integer, dimensionality of the output.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Dense`.

    Output shape:
        As `keras.layers.Dense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedDense(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedDepthwiseConv2D(Preset, DepthwiseConv2D):
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
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedEinsumDense(Preset, EinsumDense):
    """A dense einsum layer whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        rank: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class KTiedGRU(Preset, GRU):
    """A GRU layer whose weights are Normals with scales of low rank.

    The standard deviations of each kernel, a matrix with a column for each unit of each
    gate, have low rank: the layer has few more parameters than a deterministic one.

    Args:
        units: Positive integer, dimensionality of the output.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRU` and of
            `keras.layers.GRU`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRU`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.GRU`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedGRU(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class KTiedGRUCell(Preset, GRUCell):
    """A GRU cell whose weights are Normals with scales of low rank.

    The standard deviations of each kernel, a matrix with a column for each unit of each
    gate, have low rank: the cell has few more parameters than a deterministic one.

    Args:
        units: Positive integer, dimensionality of the output.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRUCell` and of
            `keras.layers.GRUCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRUCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.KTiedGRUCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        rank: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class KTiedLSTM(Preset, LSTM):
    """An LSTM layer whose weights are Normals with scales of low rank.

    The standard deviations of each kernel, a matrix with a column for each unit of each
    gate, have low rank: the layer has few more parameters than a deterministic one.

    Args:
        units: Positive integer, dimensionality of the output.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTM` and of
            `keras.layers.LSTM`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTM`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedLSTM(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        rank: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class KTiedLSTMCell(Preset, LSTMCell):
    """An LSTM cell whose weights are Normals with scales of low rank.

    The standard deviations of each kernel, a matrix with a column for each unit of each
    gate, have low rank: the cell has few more parameters than a deterministic one.

    Args:
        units: Positive integer, dimensionality of the output.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTMCell` and of
            `keras.layers.LSTMCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTMCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.KTiedLSTMCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        rank: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class MeanFieldConv1D(Preset, Conv1D):
    """A 1D convolution whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer, the size of the window.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Conv1D` and of
            `keras.layers.Conv1D`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Conv1D`.

    Output shape:
        As `keras.layers.Conv1D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldConv1D(4, 3, padding="causal", kl_weight=1e-3)
    >>> layer(np.ones((2, 8, 1))).shape
    TensorShape([2, 8, 4])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldConv2D(Preset, Conv2D):
    """A 2D convolution whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

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
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldConv2DTranspose(Preset, Conv2DTranspose):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldConv3D(Preset, Conv3D):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldDense(Preset, Dense):
    """A dense layer whose weights are independent Normals.

    The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.Dense`.

    Output shape:
        As `keras.layers.Dense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldDepthwiseConv2D(Preset, DepthwiseConv2D):
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
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldEinsumDense(Preset, EinsumDense):
    """A dense einsum layer whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """
    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        scale_initializer: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class MeanFieldGRU(Preset, GRU):
    """A GRU layer whose weights are independent Normals.

    The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`, for the kernel
    and for the recurrent kernel.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRU` and of
            `keras.layers.GRU`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRU`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.GRU`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldGRU(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class MeanFieldGRUCell(Preset, GRUCell):
    """A GRU cell whose weights are independent Normals.

    The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`, for the kernel
    and for the recurrent kernel.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.GRUCell` and of
            `keras.layers.GRUCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.GRUCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.MeanFieldGRUCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        scale_initializer: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class MeanFieldLSTM(Preset, LSTM):
    """An LSTM layer whose weights are independent Normals.

    The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`, for the kernel
    and for the recurrent kernel.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTM` and of
            `keras.layers.LSTM`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTM`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldLSTM(3, return_sequences=True, kl_weight=1e-3)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        scale_initializer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class MeanFieldLSTMCell(Preset, LSTMCell):
    """An LSTM cell whose weights are independent Normals.

    The default prior is a Normal of standard deviation `sqrt(2 / fan_in)`, for the kernel
    and for the recurrent kernel.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.LSTMCell` and of
            `keras.layers.LSTMCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial means.

    Call arguments:
        As `keras.layers.LSTMCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.MeanFieldLSTMCell(3, kl_weight=1e-3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        scale_initializer: Any = None,
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class VarianceConv1D(Preset, Conv1D):
    """A 1D convolution whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer, the size of the window.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Conv1D` and of
            `keras.layers.Conv1D`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.Conv1D`.

    Output shape:
        As `keras.layers.Conv1D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceConv1D(4, 3, padding="causal")
    >>> layer(np.ones((2, 8, 1))).shape
    TensorShape([2, 8, 4])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceConv2D(Preset, Conv2D):
    """A 2D convolution whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        filters: Positive integer, the number of output channels.
        kernel_size: Integer or pair of integers, the size of the window.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Conv2D` and of
            `keras.layers.Conv2D`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.Conv2D`.

    Output shape:
        As `keras.layers.Conv2D`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceConv2D(4, 3)
    >>> layer(np.ones((2, 8, 8, 1))).shape
    TensorShape([2, 6, 6, 4])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceConv2DTranspose(Preset, Conv2DTranspose):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceConv3D(Preset, Conv3D):
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
    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = 'valid',
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceDense(Preset, Dense):
    """A dense layer whose weights have mean zero and learned variances.

    The layer stores what it learns in the variances: the mean of its output is zero for
    every input, and later layers tell inputs apart by the spread of the output. Average
    the predictions of several calls; predictions with the mean weights are random
    guesses.

    With the default prior the KL is constant, so the layer adds nothing to the loss.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.Dense`.

    Output shape:
        As `keras.layers.Dense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceDense(3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceDepthwiseConv2D(Preset, DepthwiseConv2D):
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
    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = 'valid',
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceEinsumDense(Preset, EinsumDense):
    """A dense einsum layer whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceEinsumDense("abc,cd->abd", output_shape=(None, 3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        seed: int | None = None,
        noise: str = 'gaussian',
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
    ) -> None: ...

class VarianceGRU(Preset, GRU):
    """A GRU layer whose weights have mean zero and learned variances.

    The kernels store what they learn in their variances. Average the predictions of
    several calls; predictions with the mean weights are random guesses. With the default
    prior the KL is constant, so the layer adds nothing to the loss.

    For every input the outputs are centred at zero, or nearly so. A nonlinear layer has
    to follow, best after batch normalization. With `estimator="flipout"` each example has
    its own kernels, so that the statistics of the normalization come from many kernels;
    with the default they come from a single one.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.GRU` and of
            `keras.layers.GRU`; `kernel_initializer` and `recurrent_initializer`
            give the initial scales.

    Call arguments:
        As `keras.layers.GRU`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.GRU`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceGRU(3, return_sequences=True)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class VarianceGRUCell(Preset, GRUCell):
    """A GRU cell whose weights have mean zero and learned variances.

    The kernels store what they learn in their variances. Average the predictions of
    several calls; predictions with the mean weights are random guesses. With the default
    prior the KL is constant, so the cell adds nothing to the loss.

    For every input the outputs are centred at zero, or nearly so. A nonlinear layer has
    to follow, best after batch normalization. With `estimator="flipout"` each example has
    its own kernels, so that the statistics of the normalization come from many kernels;
    with the default they come from a single one.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.GRUCell` and of
            `keras.layers.GRUCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial scales.

    Call arguments:
        As `keras.layers.GRUCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.VarianceGRUCell(3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        noise: str = 'gaussian',
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...

class VarianceLSTM(Preset, LSTM):
    """An LSTM layer whose weights have mean zero and learned variances.

    The kernels store what they learn in their variances. Average the predictions of
    several calls; predictions with the mean weights are random guesses. With the default
    prior the KL is constant, so the layer adds nothing to the loss.

    For every input the outputs are centred at zero, or nearly so. A nonlinear layer has
    to follow, best after batch normalization. With `estimator="flipout"` each example has
    its own kernels, so that the statistics of the normalization come from many kernels;
    with the default they come from a single one.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.LSTM` and of
            `keras.layers.LSTM`; `kernel_initializer` and `recurrent_initializer`
            give the initial scales.

    Call arguments:
        As `keras.layers.LSTM`.

    Input shape:
        `(batch_size, timesteps, features)`.

    Output shape:
        As `keras.layers.LSTM`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceLSTM(3, return_sequences=True)
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = 'auto',
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        noise: str = 'gaussian',
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        zero_output_for_mask: Any = False,
        implementation: Any = 2,
    ) -> None: ...

class VarianceLSTMCell(Preset, LSTMCell):
    """An LSTM cell whose weights have mean zero and learned variances.

    The kernels store what they learn in their variances. Average the predictions of
    several calls; predictions with the mean weights are random guesses. With the default
    prior the KL is constant, so the cell adds nothing to the loss.

    For every input the outputs are centred at zero, or nearly so. A nonlinear layer has
    to follow, best after batch normalization. With `estimator="flipout"` each example has
    its own kernels, so that the statistics of the normalization come from many kernels;
    with the default they come from a single one.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.LSTMCell` and of
            `keras.layers.LSTMCell`; `kernel_initializer` and `recurrent_initializer`
            give the initial scales.

    Call arguments:
        As `keras.layers.LSTMCell`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = keras.layers.RNN(tfvn.VarianceLSTMCell(3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """
    def __init__(
        self,
        units: int,
        activation: Any = 'tanh',
        recurrent_activation: Any = 'sigmoid',
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = 'zeros',
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        prior: Any = 'auto',
        estimator: Any = None,
        kl_method: str = 'auto',
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = 'auto',
        noise: str = 'gaussian',
        activity_regularizer: Any = None,
        trainable: Any = True,
        dtype: Any = None,
        autocast: Any = True,
        name: Any = None,
        implementation: Any = 2,
    ) -> None: ...
