"""Dense layers with multiplicative noise."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.layers.constructors import given
from tfvn.layers.noise.base import NoisyKernelLayer, multiply
from tfvn.utils.validation import check_choice

Tensor = Any

STRUCTURES = ("ard", "dropconnect")


@keras.saving.register_keras_serializable("tfvn")
class NoisyDense(NoisyKernelLayer, keras.layers.Dense):
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
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        noise: Any = "bernoulli",
        structure: str = "ard",
        normalize: bool = True,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**given(locals(), "structure"))
        self.structure = check_choice("structure", structure, STRUCTURES)

    @property
    def noise_per_example(self) -> bool:  # type: ignore[override]
        """Whether the examples of a batch get independent noise."""
        return self.structure == "ard"

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        self.add_kl(self.negative_log_prior, training)
        inputs = self.as_floats(inputs)
        kernel = tf.convert_to_tensor(self.kernel)
        if self.structure == "ard":
            inputs = multiply(inputs, self.factors(tf.shape(inputs), training))
        else:
            kernel = multiply(kernel, self.factors(kernel.shape, training))
        outputs = keras.ops.matmul(inputs, kernel)
        if self.bias is not None:
            outputs = keras.ops.add(outputs, self.bias)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "structure": self.structure}
