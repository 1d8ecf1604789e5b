"""Residual connections around a block with multiplicative noise."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.distributions import serialize
from tfvn.layers.noise.base import NoiseLayer, multiply
from tfvn.utils import private
from tfvn.utils.validation import check_choice

Tensor = Any

STRUCTURES = ("depth", "ard", "depth_and_ard")


@keras.saving.register_keras_serializable("tfvn")
class NoisyResidual(NoiseLayer):
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
        block: keras.Layer,
        noise: Any = "bernoulli",
        structure: str = "depth",
        depth_noise: Any = None,
        normalize: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(noise=noise, normalize=normalize, seed=seed, **kwargs)
        if not isinstance(block, keras.Layer):
            raise ValueError(
                "Argument `block` must be a Keras layer or model. "
                f"Received: block={block!r}"
            )
        self.block = block
        self.structure = check_choice("structure", structure, STRUCTURES)
        self.depth_source = self.second_source(
            "depth_noise", depth_noise, "depth_and_ard"
        )
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        if not self.block.built:
            self.block.build(input_shape)
        output_shape = tuple(self.block.compute_output_shape(input_shape))
        if output_shape != tuple(input_shape):
            raise ValueError(
                "The outputs of `block` must have the same shape as its inputs, "
                f"because they are added. Received: input_shape={tuple(input_shape)} "
                f"and output_shape={output_shape}"
            )
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        inputs = self.as_floats(inputs)
        shape = tf.shape(inputs)
        noisy = inputs
        if self.structure != "depth":
            noisy = multiply(noisy, self.factors(shape, training))
        if self.structure != "ard":
            one_each = tf.concat([shape[:1], tf.ones_like(shape[1:])], axis=0)
            factors = self.factors(one_each, training, self.depth_source)
            noisy = multiply(noisy, factors)
        if mask is not None:
            private.set_keras_mask(noisy, mask)
        return inputs + self.block(noisy)

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        same = self.depth_source is self.source
        return {
            **super().get_config(),
            "block": keras.saving.serialize_keras_object(self.block),
            "structure": self.structure,
            "depth_noise": None if same else serialize(self.depth_source.law),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "NoisyResidual":
        block = keras.saving.deserialize_keras_object(config["block"])
        return cls(**{**config, "block": block})
