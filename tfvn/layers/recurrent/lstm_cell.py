"""LSTM cells with random kernels."""

from typing import Any

import keras

from tfvn.layers.constructors import Preset, given
from tfvn.layers.recurrent.base_cell import StochasticRNNCell
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class LSTMCell(StochasticRNNCell, keras.layers.LSTMCell):
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

    gates = 4

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
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
        posterior: Any = "mean_field",
        prior: Any = "auto",
        estimator: Any = None,
        kl_method: str = "auto",
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = "auto",
        **kwargs: Any,
    ):
        super().__init__(**given(locals()))

    def make_bias_initializer(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer
        return self._initial_bias

    def _initial_bias(self, shape: Any, **kwargs: Any) -> Tensor:
        # The gates are input, forget, cell and output.
        start, end = (
            self.bias_initializer((size * self.units,), **kwargs) for size in (1, 2)
        )
        forget = keras.ops.ones((self.units,), **kwargs)
        return keras.ops.concatenate([start, forget, end])

    def flipped_step(
        self, inputs: Tensor, states: Any, training: bool | None
    ) -> tuple[Tensor, Any]:
        state, carry = states
        outputs = self.input_gates(inputs, training)
        recurrent = self.state_gates(state, training)
        gates = [x + h for x, h in zip(outputs, recurrent, strict=True)]
        if self.use_bias:
            biases = keras.ops.split(self.bias, self.gates, axis=-1)
            gates = [gate + bias for gate, bias in zip(gates, biases, strict=True)]
        return lstm_step(self, gates, carry)


def lstm_step(cell: Any, gates: list[Tensor], carry: Tensor) -> tuple[Tensor, Any]:
    """Returns the output and the states of a step of an LSTM, as Keras computes them.

    Args:
        cell: A `keras.layers.LSTMCell`.
        gates: For each gate the sum of all its products and of its bias.
        carry: The cell state.
    """
    start, forget, new, output = gates
    carry = cell.recurrent_activation(forget) * carry
    carry += cell.recurrent_activation(start) * cell.activation(new)
    state = cell.recurrent_activation(output) * cell.activation(carry)
    return state, [state, carry]


class VarianceLSTMCell(Preset, LSTMCell, posterior=Variance):
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


class GaussianDropoutLSTMCell(Preset, LSTMCell, posterior=GaussianDropout):
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


class MeanFieldLSTMCell(Preset, LSTMCell, posterior=MeanField):
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


class KTiedLSTMCell(Preset, LSTMCell, posterior=KTied):
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
