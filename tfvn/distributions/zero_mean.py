"""Zero-mean distributions of a variance layer's weights (Neklyudov et al., section 3.3).

They are separate classes instead of a `tfd.Normal(0, scale)`, because TFP looks up KL
divergences by type: the KL of a zero-mean distribution to the log-uniform and the ARD prior
is constant, whatever its scale, even a scale of zero.
"""

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register, remember


@register
class ZeroMeanNormal(tfd.Normal):
    """The distribution `N(0, scale^2)`.

    Args:
        scale: Standard deviation, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.
    """

    def __init__(
        self,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ZeroMeanNormal",
    ):
        parameters = dict(locals())
        super().__init__(0.0, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"scale": tfd.Normal.parameter_properties(dtype)["scale"]}


@register
class ZeroMeanUniform(tfd.Uniform):
    """The uniform distribution on `[-scale, scale)`, with variance `scale^2 / 3`.

    Args:
        scale: Half the width of the support, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.
    """

    def __init__(
        self,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ZeroMeanUniform",
    ):
        parameters = dict(locals())
        scale = tf.convert_to_tensor(scale)
        super().__init__(-scale, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)
        self.scale = scale

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"scale": tfd.Normal.parameter_properties(dtype)["scale"]}


@register
class ZeroMeanBernoulli(ScalarDistribution):
    """The distribution of `-scale` or `scale`, each with probability 1/2.

    Args:
        scale: Standard deviation, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.
    """

    def __init__(
        self,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ZeroMeanBernoulli",
    ):
        parameters = dict(locals())
        self.scale = tf.convert_to_tensor(scale)
        super().__init__(parameters, self.scale.dtype)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"scale": tfd.Normal.parameter_properties(dtype)["scale"]}

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        seed = tfp.random.sanitize_seed(seed)
        shape = tf.concat([[n], tf.shape(self.scale)], axis=0)
        return self.scale * random.rademacher(shape, seed, self.scale.dtype)

    def _prob(self, value: Any) -> Any:
        return tf.cast(tf.abs(value) == self.scale, self.dtype) / 2

    def _log_prob(self, value: Any) -> Any:
        return tf.math.log(self._prob(value))

    def _mean(self) -> Any:
        return tf.zeros_like(self.scale)

    def _variance(self) -> Any:
        return tf.square(self.scale)
