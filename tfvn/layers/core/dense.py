"""Dense layers with a random kernel."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.constructors import Preset, given
from tfvn.layers.feed_forward import StochasticLayer
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class Dense(StochasticLayer, keras.layers.Dense):
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
        input_dim = input_shape[-1]
        if input_dim is None:
            raise ValueError(
                f"The last dimension of the inputs to `{type(self).__name__}` must be "
                f"defined. Received: input_shape={input_shape}"
            )
        self.input_spec = keras.InputSpec(min_ndim=2, axes={-1: input_dim})
        return KernelSpec((input_dim, self.units), output_axes=(1,))

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return keras.ops.matmul(inputs, kernel)

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return keras.ops.matmul(keras.ops.matmul(inputs, left), right)


class VarianceDense(Preset, Dense, posterior=Variance):
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


class GaussianDropoutDense(Preset, Dense, posterior=GaussianDropout):
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


class MeanFieldDense(Preset, Dense, posterior=MeanField):
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


class KTiedDense(Preset, Dense, posterior=KTied):
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
