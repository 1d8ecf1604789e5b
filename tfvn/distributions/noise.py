"""Distributions of multiplicative noise: aliases, sampling, and the priors they imply.

The law of a noise is a scalar `tfd.Distribution`, for which users may write an alias. The
product of noise and a Normal weight is a scale mixture: the prior that the noise implies
for the weight.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions.exact_horseshoe import ExactHorseshoe
from tfvn.distributions.generalized_hyperbolic import GeneralizedHyperbolic
from tfvn.distributions.inverse_nakagami import InverseNakagami
from tfvn.distributions.rayleigh import Rayleigh
from tfvn.distributions.scale_mixture import ScaleMixture, is_density
from tfvn.distributions.serialization import deserialize, is_config
from tfvn.distributions.spike_and_slab import SpikeAndSlab
from tfvn.utils.validation import check_number

Tensor = Any
Builder = Callable[..., tfd.Distribution]

_BUILDERS: dict[str, Builder] = {}


def register_noise(alias: str) -> Callable[[Builder], Builder]:
    """Registers a distribution of noise under an alias (a decorator).

    The decorated function returns the distribution. All its arguments are keywords with
    defaults.

    Args:
        alias: The name that users pass as `noise`.
    """

    def decorator(builder: Builder) -> Builder:
        _BUILDERS[alias] = builder
        return builder

    return decorator


# By default, noise has a variance of about a quarter of its squared mean, as dropout with a
# rate of 0.2 has. Distributions without a natural scale get a mean square of 1, so that the
# marginal prior has the same variance as its Normal factor.


@register_noise("bernoulli")
def _bernoulli(keep_probability: float = 0.8) -> tfd.Distribution:
    probability = check_number("keep_probability", keep_probability, least=0, most=1)
    return tfd.Bernoulli(probs=float(probability))


@register_noise("gaussian")
def _gaussian(mean: float = 1.0, stddev: float = 0.5) -> tfd.Distribution:
    mean, stddev = check_number("mean", mean), check_number("stddev", stddev, least=0)
    return tfd.Normal(float(mean), float(stddev))


@register_noise("rayleigh")
def _rayleigh(scale: float = math.sqrt(0.5)) -> tfd.Distribution:
    return Rayleigh(_positive("scale", scale))


@register_noise("inverse_nakagami")
def _inverse_nakagami(
    concentration: float = 2.0, spread: float = 2.0
) -> tfd.Distribution:
    return InverseNakagami(
        _positive("concentration", concentration), _positive("spread", spread)
    )


@register_noise("half_cauchy")
def _half_cauchy(scale: float = 1.0) -> tfd.Distribution:
    return tfd.HalfCauchy(0.0, _positive("scale", scale))


def noise_aliases() -> list[str]:
    """Returns the known aliases."""
    return sorted(_BUILDERS)


def noise_law(noise: Any, **parameters: float) -> tfd.Distribution:
    """Returns the distribution of a noise, given its alias and parameters.

    | alias | parameters | law | marginal prior of a weight |
    | --- | --- | --- | --- |
    | `"bernoulli"` | `keep_probability=0.8` | 1 or 0 | spike and slab |
    | `"gaussian"` | `mean=1.0`, `stddev=0.5` | Normal | with mean 0, generalized hyperbolic |
    | `"rayleigh"` | `scale=0.7071` | Rayleigh | Laplace |
    | `"inverse_nakagami"` | `concentration=2.0`, `spread=2.0` | inverse Nakagami | Student-t |
    | `"half_cauchy"` | `scale=1.0` | half-Cauchy | horseshoe |

    Args:
        noise: One of the aliases, or a scalar `tfd.Distribution`, which is returned
            unchanged.
        **parameters: Parameters of the distribution, only together with an alias.

    Returns:
        A scalar `tfd.Distribution`.

    Example:

    >>> import tfvn
    >>> law = tfvn.distributions.noise_law("gaussian", mean=0.0, stddev=1.0)
    >>> layer = tfvn.MultiplicativeNoise(law, normalize=False)
    """
    if is_config(noise):
        noise = deserialize(noise)
    if isinstance(noise, str) and noise in _BUILDERS:
        taken = list(inspect.signature(_BUILDERS[noise]).parameters)
        unknown = {k: v for k, v in parameters.items() if k not in taken}
        if unknown:
            raise ValueError(
                f"The parameters of {noise!r} noise must be some of {taken}. Received: "
                f"{_listed(unknown)}"
            )
        # Outside of the graph, in case the layer is created while one is being traced.
        with tf.init_scope():
            return _BUILDERS[noise](**parameters)
    is_scalar = (
        isinstance(noise, tfd.Distribution)
        and noise.event_shape.rank == 0
        and noise.batch_shape.rank == 0
    )
    if not is_scalar:
        raise ValueError(
            f"Unknown noise: expected one of {noise_aliases()}, or a scalar "
            f"`tfd.Distribution`. Received: noise={noise!r}"
        )
    if parameters:
        raise ValueError(
            "Argument `noise` is a distribution, which already has its parameters; "
            "pass parameters only if `noise` is a name such as 'gaussian'. Received: "
            f"{_listed(parameters)}"
        )
    return noise


def _listed(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def center(law: tfd.Distribution) -> float:
    """Returns the mean of a distribution, or the median if it has no finite mean."""
    with tf.init_scope():
        for statistic in (law.mean, lambda: law.quantile(0.5)):
            try:
                value = float(statistic())
            except NotImplementedError:
                continue
            if math.isfinite(value):
                return value
    raise ValueError(
        "Argument `noise` must be a distribution with a finite mean or a median that "
        f"TFP can compute. Received: noise={law}"
    )


def sample(law: tfd.Distribution, shape: Any, seed: Tensor) -> Tensor:
    """Samples noise in float32.

    The most common distributions are sampled by `tfvn.random`, which is faster than TFP.

    Args:
        law: The distribution of the noise.
        shape: Shape of the noise.
        seed: A seed from a `tfvn.random.SeedGenerator`.
    """
    if type(law) is tfd.Bernoulli:
        threshold = 2.0 * tf.cast(law.probs_parameter(), tf.float32) - 1.0
        return tf.cast(random.uniform(shape, seed) < threshold, tf.float32)
    if type(law) is tfd.Normal:
        loc, scale = (tf.cast(value, tf.float32) for value in (law.loc, law.scale))
        return loc + scale * random.normal(shape, seed)
    if type(law) is tfd.HalfCauchy:
        level = (random.uniform(shape, seed) + 1.0) / 2.0
        return tf.cast(law.quantile(tf.cast(level, law.dtype)), tf.float32)
    return tf.cast(law.sample(shape, seed=seed), tf.float32)


def marginal_prior(noise: Any, scale: float = 1.0) -> tfd.Distribution:
    """Returns the prior that noise implies for a weight: that of `noise * N(0, scale^2)`.

    Training a weight with multiplicative noise finds its posterior mode under this prior.
    The prior is that of the noise itself. A layer with `normalize=True` divides the noise
    by its mean, which divides the scale of the prior by that mean too: the prior gets wider
    if the mean is below 1.

    Args:
        noise: An alias or a `tfd.Distribution`, as in `tfvn.distributions.noise_law`.
        scale: Standard deviation of the Normal factor, a positive number.

    Returns:
        A `tfd.Distribution` with `log_prob`, `cdf` and `sample`. For the aliases of
        `noise_law` it has a closed form, except for Gaussian noise with a mean other than
        zero. That, and any other noise with a density, uses quadrature.

    Example:

    >>> import tfvn
    >>> tfvn.distributions.marginal_prior("rayleigh", scale=2.0).name
    'Laplace'

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), table 1
    """
    law, scale = noise_law(noise), _positive("scale", scale)
    prior = _closed_form(law, scale)
    if prior is not None:
        return prior
    if not is_density(law):
        raise ValueError(
            "`marginal_prior` supports Bernoulli noise, and scalar noise with a "
            f"density, only. Received: noise={law}"
        )
    return ScaleMixture(law, scale)


def _closed_form(law: tfd.Distribution, scale: float) -> tfd.Distribution | None:
    """Returns the marginal prior of a noise if it has a closed form."""
    if isinstance(law, tfd.Bernoulli):
        keep = float(law.probs_parameter())
        if keep == 0:
            raise ValueError(
                "Noise that is always zero makes every weight zero and so implies no "
                "prior; expected a keep probability above 0. Received: probs=0.0"
            )
        return tfd.Normal(0.0, scale) if keep == 1 else SpikeAndSlab(scale, 0.0, keep)
    if isinstance(law, tfd.Normal):
        mean, stddev = float(law.loc), float(law.scale)
        if stddev == 0:
            return tfd.Normal(0.0, _positive("mean", abs(mean)) * scale)
        return GeneralizedHyperbolic(stddev * scale) if mean == 0 else None
    if isinstance(law, Rayleigh):
        return tfd.Laplace(0.0, float(law.scale) * scale)
    if isinstance(law, InverseNakagami):
        df = 2.0 * float(law.concentration)
        return tfd.StudentT(df, 0.0, scale / math.sqrt(float(law.spread)))
    if isinstance(law, tfd.HalfCauchy) and float(law.loc) == 0:
        return ExactHorseshoe(float(law.scale) * scale)
    return None


def inverse_square_moments(law: tfd.Distribution) -> tuple[float, float]:
    """Returns the mean and the variance of `noise^-2`, which may be infinite.

    They are finite only if the noise has little mass near zero. For distributions that
    have no alias in `noise_law`, the result is NaN.

    Args:
        law: The distribution of the noise.
    """
    if isinstance(law, InverseNakagami):
        spread = float(law.spread)
        return spread, spread**2 / float(law.concentration)
    if isinstance(law, tfd.Bernoulli) and float(law.probs_parameter()) == 1:
        return 1.0, 0.0
    if isinstance(law, tfd.Normal) and float(law.scale) == 0 and float(law.loc) != 0:
        return float(law.loc) ** -2, 0.0
    if isinstance(law, tfd.Bernoulli | tfd.Normal | Rayleigh | tfd.HalfCauchy):
        return math.inf, math.inf
    return math.nan, math.nan


def _positive(name: str, value: Any) -> float:
    return float(check_number(name, value, above=0))
