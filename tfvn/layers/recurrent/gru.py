"""GRU layers with random kernels."""

from typing import Any

import keras

from tfvn.layers.constructors import Preset, given
from tfvn.layers.recurrent.base_layer import StochasticRNN
from tfvn.layers.recurrent.gru_cell import GRUCell
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance


@keras.saving.register_keras_serializable("tfvn")
class GRU(StochasticRNN, keras.layers.GRU):
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

    cell_class = GRUCell

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
        use_cudnn: bool | str = "auto",
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


class VarianceGRU(Preset, GRU, posterior=Variance):
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


class GaussianDropoutGRU(Preset, GRU, posterior=GaussianDropout):
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


class MeanFieldGRU(Preset, GRU, posterior=MeanField):
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


class KTiedGRU(Preset, GRU, posterior=KTied):
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
