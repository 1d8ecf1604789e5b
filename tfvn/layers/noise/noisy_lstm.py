"""LSTMs with multiplicative noise on their inputs."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.layers.constructors import given
from tfvn.layers.noise.base import NoisyKernelLayer, multiply
from tfvn.layers.recurrent.base_layer import OfCell, ReplacesCell
from tfvn.layers.recurrent.held_draws import HoldsDraws
from tfvn.layers.recurrent.lstm_cell import lstm_step
from tfvn.utils.validation import check_choice

Tensor = Any

GATES = ("tied", "untied")
_NUM_GATES = 4


@keras.saving.register_keras_serializable("tfvn")
class NoisyLSTMCell(HoldsDraws, NoisyKernelLayer, keras.layers.LSTMCell):
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
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
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
        noise: Any = "bernoulli",
        gates: str = "tied",
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        **kwargs: Any,
    ):
        arguments = given(locals(), "gates")
        if gates == "untied":
            # Then Keras's own dropout has a mask for each gate, too.
            arguments["implementation"] = 1
        super().__init__(**arguments)
        self.gates = check_choice("gates", gates, GATES)

    @property
    def prior_weights(self) -> list[keras.Variable]:
        """The weights that have the prior: all except the bias."""
        return [self.kernel, self.recurrent_kernel]

    def get_dropout_mask(self, step_input: Tensor) -> Any:
        # `RNN` asks for this mask first, before it loops over the steps. Here a loss
        # and a seed are still outside of the loop.
        self.hold_for_sequence(step_input)
        return super().get_dropout_mask(step_input)

    def reset_dropout_mask(self) -> None:
        super().reset_dropout_mask()
        self._held = None

    def draw(self, inputs: Tensor, training: bool | None) -> list[Tensor]:
        self.add_kl(self.negative_log_prior, training)
        shape = tf.shape(inputs)
        count = 1 if self.gates == "tied" else _NUM_GATES
        return [self.factors(shape, training) for _ in range(count)]

    def step(self, inputs: Tensor, states: Any, training: bool) -> Any:
        inputs = self.as_floats(inputs)
        inputs_of = [multiply(inputs, factor) for factor in self._held]
        if self.gates == "tied":
            return super().step(inputs_of[0], states, training)
        state_of = [states[0]] * _NUM_GATES
        if training and 0 < self.dropout < 1:
            masks = self.get_dropout_mask(inputs)
            inputs_of = [x * mask for x, mask in zip(inputs_of, masks, strict=True)]
        if training and 0 < self.recurrent_dropout < 1:
            masks = self.get_recurrent_dropout_mask(states[0])
            state_of = [h * mask for h, mask in zip(state_of, masks, strict=True)]
        kernels, recurrent_kernels = (
            keras.ops.split(kernel, _NUM_GATES, axis=1)
            for kernel in (self.kernel, self.recurrent_kernel)
        )
        gates = [
            keras.ops.matmul(x, w) + keras.ops.matmul(h, u)
            for x, w, h, u in zip(
                inputs_of, kernels, state_of, recurrent_kernels, strict=True
            )
        ]
        if self.use_bias:
            biases = keras.ops.split(self.bias, _NUM_GATES)
            gates = [gate + bias for gate, bias in zip(gates, biases, strict=True)]
        return lstm_step(self, gates, states[1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gates": self.gates}


@keras.saving.register_keras_serializable("tfvn")
class NoisyLSTM(ReplacesCell, keras.layers.LSTM):
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

    noise_per_example = True

    cell_class = NoisyLSTMCell

    noise = OfCell()
    gates = OfCell()
    normalize = OfCell()
    prior_scale = OfCell()
    kl_weight = OfCell()

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
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
        use_cudnn: bool | str = "auto",
        *,
        noise: Any = "bernoulli",
        gates: str = "tied",
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        **kwargs: Any,
    ):
        if use_cudnn is True:
            raise ValueError(
                "Argument `use_cudnn` must be 'auto' or `False`, because cuDNN does "
                "not support multiplicative noise. Received: use_cudnn=True"
            )
        super().__init__(**{**given(locals()), "use_cudnn": False})
