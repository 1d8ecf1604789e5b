"""GRU cells with random kernels."""

from typing import Any

import keras

from tfvn.layers.constructors import Preset, given
from tfvn.layers.recurrent.base_cell import StochasticRNNCell
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class GRUCell(StochasticRNNCell, keras.layers.GRUCell):
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

    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        bias_initializer: Any = "zeros",
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

    @property
    def bias_shape(self) -> tuple[int, ...]:
        columns = self.gates * self.units
        # One bias for the inputs and one for the state.
        return (2, columns) if self.reset_after else (columns,)

    def flipped_step(
        self, inputs: Tensor, states: Any, training: bool | None
    ) -> tuple[Tensor, Any]:
        state = states[0] if isinstance(states, list | tuple) else states
        x_update, x_reset, x_new = self._add_bias(0, self.input_gates(inputs, training))
        h_update, h_reset, h_new = self._add_bias(1, self.state_gates(state, training))
        update = self.recurrent_activation(x_update + h_update)
        reset = self.recurrent_activation(x_reset + h_reset)
        if self.reset_after:
            h_new = reset * h_new
        else:
            mask = self.state_mask(state, training)
            masked = state if mask is None else state * mask[2]
            h_new = self._held.product("recurrent_kernel", reset * masked, self.gate(2))
        new = self.activation(x_new + h_new)
        output = update * state + (1 - update) * new
        return output, [output] if isinstance(states, list | tuple) else output

    def _add_bias(self, index: int, gates: list[Tensor]) -> list[Tensor]:
        """Adds the bias of the inputs (0) or of the state (1), if there is one."""
        if not self.use_bias or (index == 1 and not self.reset_after):
            return gates
        bias = self.bias[index] if self.reset_after else self.bias
        biases = keras.ops.split(bias, self.gates, axis=-1)
        return [gate + part for gate, part in zip(gates, biases, strict=True)]


class VarianceGRUCell(Preset, GRUCell, posterior=Variance):
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


class GaussianDropoutGRUCell(Preset, GRUCell, posterior=GaussianDropout):
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


class MeanFieldGRUCell(Preset, GRUCell, posterior=MeanField):
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


class KTiedGRUCell(Preset, GRUCell, posterior=KTied):
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
