"""Base classes of layers with multiplicative noise."""

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import passes, random
from tfvn.distributions import noise as noise_laws
from tfvn.distributions import noise_law, serialize
from tfvn.layers.weighted_kl import WeightedKL, check_kl_weight
from tfvn.utils import private
from tfvn.utils.validation import check_number

Tensor = Any

# The largest float16 is 65,504. Noise with heavy tails is clipped at the square root of
# that, so that its product with an activation of that size stays finite.
_LARGEST_HALF = 255.0


class NoiseSource:
    """The factors of one law of noise.

    Args:
        noise: An alias, a config, or a scalar `tfd.Distribution`.
        normalize: Whether to divide by the mean, or by the median if there is no mean.

    Attributes:
        law: The law as it was given.
        divisor: The number that draws are divided by.
        quiet: The factor that replaces the noise when none is drawn.
    """

    def __init__(self, noise: Any, normalize: bool):
        self.law: tfd.Distribution = noise_law(noise)
        center = noise_laws.center(self.law)
        if normalize and center == 0:
            raise ValueError(
                "Argument `normalize` must be `False` for noise with mean zero, "
                "because normalizing divides the noise by its mean. Received: "
                f"normalize=True and noise={self.law}"
            )
        self.divisor = center if normalize else 1.0
        self.quiet = 1.0 if normalize else center

    def draw(self, shape: Any, seed: Tensor, dtype: Any) -> Tensor:
        """Draws factors in float32, and returns them in another type."""
        factors = noise_laws.sample(self.law, shape, seed)
        if self.divisor != 1.0:
            factors *= 1.0 / self.divisor
        if tf.as_dtype(dtype) == tf.float16:
            factors = tf.clip_by_value(factors, -_LARGEST_HALF, _LARGEST_HALF)
        return tf.cast(factors, dtype)


class NoiseLayer(keras.Layer):
    """A layer that multiplies something by noise, in training or for an ensemble.

    As in `keras.layers.Dropout` the noise acts in training. At inference its mean stands
    for it, unless an ensemble is being predicted (`tfvn.passes`).

    Args:
        *args: Arguments of the Keras layer.
        noise: Distribution of the noise, an alias or a scalar `tfd.Distribution`.
        normalize: Whether to divide the noise by its mean, or by its median if it has no
            mean, so that the layer does nothing at inference.
        seed: Integer seed of the noise.
        **kwargs: Further arguments of the Keras layer.

    Attributes:
        noise_per_example: Whether the examples of a batch get independent noise.
    """

    noise_per_example: bool = True
    seed_generator: keras.random.SeedGenerator

    def __init__(
        self,
        *args: Any,
        noise: Any = "bernoulli",
        normalize: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.source = NoiseSource(noise, normalize)
        self.noise = self.source.law
        self.normalize = normalize
        self.seed = seed
        random.set_seed_generator(self, seed)

    def factors(
        self,
        shape: Any,
        training: bool | None,
        source: NoiseSource | None = None,
    ) -> Tensor:
        """Returns noise or, when none is drawn, the number that replaces it.

        Args:
            shape: Shape of the noise.
            training: Whether the layer is being trained.
            source: The source of the noise; `None` is the layer's own.
        """
        source = source or self.source
        now = passes.current()
        if now.noise_of is not None:
            return now.noise_of(self, source, shape)
        if not (training or now.draws_noise):
            return source.quiet
        seed = self.seed_generator.next(per_example=self.noise_per_example)
        return source.draw(shape, seed, self.compute_dtype)

    def second_source(self, name: str, noise: Any, joint_structure: str) -> NoiseSource:
        """Returns the source of the second of two noises.

        Args:
            name: The name of the argument.
            noise: Its value: a law, or `None` for the law of the first noise.
            joint_structure: The one `structure` of the layer that has two noises.
        """
        if noise is None:
            return self.source
        if self.structure != joint_structure:
            raise ValueError(
                f"Argument `{name}` applies only with `structure={joint_structure!r}`; "
                f"pass this structure, or leave `{name}` out. Received: "
                f"{name}={noise!r} with structure={self.structure!r}"
            )
        return NoiseSource(noise, self.normalize)

    def as_floats(self, inputs: Tensor) -> Tensor:
        """Returns the inputs, with integers and booleans converted to floats."""
        inputs = tf.convert_to_tensor(inputs)
        is_floating = inputs.dtype.is_floating or inputs.dtype.is_complex
        return inputs if is_floating else tf.cast(inputs, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "noise": serialize(self.noise),
            "normalize": self.normalize,
            "seed": self.seed,
        }


class NoisyKernelLayer(WeightedKL, NoiseLayer):
    """A noise layer with weights, whose prior may have a Normal factor.

    Args:
        *args: Arguments of the Keras layer.
        prior_scale: Standard deviation `s` of the Normal factor of the prior, which adds
            weight decay, `sum(w^2) / (2 s^2)`, to the loss. `None` leaves the factor
            flat. A `tfvn.Model` treats the term like a KL and divides it by the number of
            training examples.
        kl_weight: Factor of that term; with a loss that is a mean over examples, in a stock
            Keras model, `1 / number_of_training_examples`.
        **kwargs: Arguments of `NoiseLayer`, and of the Keras layer.
    """

    def __init__(
        self,
        *args: Any,
        prior_scale: float | None = None,
        kl_weight: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.prior_scale = check_number(
            "prior_scale", prior_scale, above=0, or_none=True
        )
        if self.has_kl:
            self.add_kl_weight(kl_weight)
        else:
            self._kl_weight_argument = check_kl_weight(kl_weight)

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a term of the prior to the loss."""
        return self.prior_scale is not None

    @property
    def prior_weights(self) -> list[keras.Variable]:
        """The weights that have the prior: all except the bias."""
        return [private.own_kernel(self)]

    def negative_log_prior(self) -> Tensor:
        """Returns `sum(w^2) / (2 prior_scale^2)`, in nats and up to a constant."""
        if self.prior_scale is None:
            raise ValueError(
                "`negative_log_prior()` needs a layer with a Normal prior; pass "
                f"`prior_scale` to the layer. Received: layer={self.name!r} with "
                "prior_scale=None"
            )
        with private.full_precision():
            squares = [2.0 * tf.nn.l2_loss(w.value) for w in self.prior_weights]
        return tf.cast(tf.add_n(squares), tf.float32) / (2.0 * self.prior_scale**2)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "prior_scale": self.prior_scale,
            "kl_weight": self.kl_weight_now(),
        }


def multiply(tensor: Tensor, factors: Tensor) -> Tensor:
    """Returns the product, and skips the multiplication if the factor is the number 1."""
    is_one = isinstance(factors, float) and factors == 1.0
    return tensor if is_one else tensor * factors
