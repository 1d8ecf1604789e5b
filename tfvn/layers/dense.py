"""Dense layers with a random kernel."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.base import StochasticLayer
from tfvn.layers.presets import MeanFieldPreset, VariancePreset

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class Dense(StochasticLayer, keras.layers.Dense):
    """A `keras.layers.Dense` whose kernel is a distribution.

    It computes `activation(inputs @ kernel + bias)` for a kernel that is drawn anew
    in every call, in training and at inference.

    Args:
        units: Positive integer, dimensionality of the output.
        posterior: What is learned about the kernel: `"mean_field"`, `"variance"`, or
            an instance of `tfvn.posteriors`.
        prior: What the posterior is measured against: `"normal"`, `"log_uniform"`,
            `"ard"`, a `tfd.Distribution` that broadcasts to the kernel, or `None` for
            no KL. `"auto"` is the posterior's own default.
        estimator: How noise reaches the output: `"local"`, `"weights"` or `"mean"`.
            `None` is the default for the posterior.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        bias_posterior: `None` for a plain bias, or `"mean_field"`.
        bias_prior: Prior of a random bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise.
        **kwargs: Every other argument of `keras.layers.Dense`.

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


@keras.saving.register_keras_serializable("tfvn")
class VarianceDense(VariancePreset, Dense):
    """A dense layer whose weights have mean zero and learned variances.

    All that the layer knows is in the variances: the mean of its output is zero for
    every input, and following layers tell inputs apart by how widely it spreads.
    Averaging predictions over several calls makes them good; replacing the weights
    by their means makes them a random guess.

    With the default prior the KL is constant, so the layer adds nothing to the loss.

    Args:
        units: Positive integer, dimensionality of the output.
        noise: Law of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        prior: See `tfvn.layers.Dense`. Defaults to `"log_uniform"` and, for Bernoulli
            noise, which has an infinite KL to any density, to `None`.
        estimator: Defaults to `"local"` for Gaussian noise, else to `"weights"`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial scales.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., units)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceDense(3, activation="relu")
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])
    >>> layer.losses
    []

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


@keras.saving.register_keras_serializable("tfvn")
class MeanFieldDense(MeanFieldPreset, Dense):
    """A dense layer whose weights are independent Normals.

    Args:
        units: Positive integer, dimensionality of the output.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        prior: See `tfvn.layers.Dense`. Defaults to `"normal"`, with a standard
            deviation of `sqrt(2 / input_dim)`.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.Dense` and of
            `keras.layers.Dense`; `kernel_initializer` gives the initial means.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., units)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(3, kl_weight=1e-3)
    >>> layer(np.ones((2, 4))).shape
    TensorShape([2, 3])
    >>> len(layer.losses)
    1

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 2
    """
