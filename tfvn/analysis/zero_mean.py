"""Gaussian-dropout layers as variance layers: the conversion, and how much it changes."""

import dataclasses
import math
import warnings
from typing import Any

import keras
import numpy as np

from tfvn.analysis.posterior_copies import PosteriorCopier
from tfvn.analysis.selection import (
    ALL,
    chosen_parts,
    is_all,
    kernel_posteriors,
    single_layer,
)
from tfvn.layers.base import RandomWeightsLayer
from tfvn.posteriors import GaussianDropout, Posterior, Pruned, Variance
from tfvn.posteriors.pruned import unpruned
from tfvn.priors import AUTO
from tfvn.utils.validation import check_number


def to_variance(
    model: keras.Model, min_log_alpha: float = 5.0, layers: Any = ALL
) -> Any:
    """Returns a copy of a model with variance layers for layers that act as such.

    If log alpha of a Gaussian-dropout layer is large, its standard deviations
    `sqrt(alpha) |mean|` are so much larger than its means that the means no longer matter.
    A variance layer with the same standard deviations then predicts the same. It has half as
    many weights if `alpha` was one per weight, and nothing to learn about means.

    A layer is converted if every log alpha of its kernel, in a recurrent layer of both
    kernels, is at least `min_log_alpha`. All other layers are copied. A warning names the
    Gaussian-dropout layers that were not converted. `model.summary()` shows the class of
    each layer: a `GaussianDropoutDense` has become a `VarianceDense`.

    A converted layer keeps its bias, estimator, weight of the KL, name and seed. Its prior is
    the default of variance layers, to which the KL is constant, so that the layer adds
    nothing to the loss. The copy is compiled as the model is. The model does not change.

    Args:
        model: A model that has been built, as in `tfvn.tie`.
        min_log_alpha: The smallest log alpha of a layer that is converted. At 5, a standard
            deviation is 12 times the mean. See also `tfvn.zero_mean_bound`.
        layers: `"all"` for all Gaussian-dropout layers with such a log alpha; or a layer, its
            name, or a list of these, which must all be such layers.

    Returns:
        A `tfvn.Sequential` or a `tfvn.Model`.

    Example:

    >>> import keras
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDense(3, initial_log_alpha=8.0)
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> type(tfvn.to_variance(model).layers[0]).__name__
    'VarianceDense'

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4.3
    """
    min_log_alpha = check_number("min_log_alpha", min_log_alpha)
    asked = chosen_parts(model, layers)
    is_named = not is_all(layers)
    dropout = [x for x in asked if isinstance(unpruned(x.posterior), GaussianDropout)]
    chosen = [
        layer
        for layer in dropout
        if not isinstance(layer.posterior, Pruned)
        and _smallest_log_alpha(layer) >= min_log_alpha
    ]
    left = dropout if not is_named else asked
    left = [layer for layer in left if layer not in chosen]
    if not chosen or (is_named and left):
        raise ValueError(
            "A Gaussian-dropout layer acts as a variance layer only if all its log alphas "
            f"are large; expected {'layers' if is_named else 'a layer in `model`'} with a "
            f"smallest log alpha of at least `min_log_alpha`={min_log_alpha}. Received: "
            f"{_described(left) or f'model={model.name!r} without Gaussian dropout'}"
        )
    for layer in chosen:
        _check_means_are_plain(layer)
    if left:
        warnings.warn(
            f"`tfvn.to_variance` converted {[layer.name for layer in chosen]} and kept "
            f"layers that are pruned or have a log alpha below {min_log_alpha}: "
            f"{_described(left)}.",
            stacklevel=2,
        )
    return _ToVariance(chosen).copy(model)


@dataclasses.dataclass(frozen=True)
class ZeroMeanBound:
    """The result of `tfvn.zero_mean_bound`.

    Attributes:
        sum_inverse_alpha: The sum of `1 / alpha` over the weights of the kernels. It is the
            squared distance between the two distributions of the weights, in standard
            deviations.
    """

    sum_inverse_alpha: float

    @property
    def mmd(self) -> float:
        """The paper's bound on the maximum mean discrepancy, at most 2."""
        return min(2.0, math.sqrt(2.0 * self.sum_inverse_alpha / math.pi))

    @property
    def prediction(self) -> float:
        """The paper's bound on the change of an expected probability, at most 1."""
        return self.mmd / 2.0

    @property
    def total_variation(self) -> float:
        """The exact total variation, which no change of a probability exceeds."""
        return math.erf(math.sqrt(self.sum_inverse_alpha / 8.0))

    @property
    def is_vacuous(self) -> bool:
        """Whether the paper's bounds say nothing, because they are at their largest."""
        return self.mmd == 2.0

    def __repr__(self) -> str:
        return (
            f"ZeroMeanBound(mmd={self.mmd:.4g}, prediction={self.prediction:.4g}, "
            f"total_variation={self.total_variation:.4g}, is_vacuous={self.is_vacuous})"
        )


def zero_mean_bound(layer: Any) -> ZeroMeanBound:
    """Returns how much predictions can change if the means of a layer are set to zero.

    The layer's kernel has the distribution `q`, and its zero-mean twin has the distribution
    `q0` with the same variances. With `S` the sum of `1 / alpha_i` over all weights, where
    `alpha_i = variance_i / mean_i^2` (for one alpha and `D` weights, `S = D / alpha`):

    - `mmd` is `sqrt(2 S / pi)`, which bounds `|E_q f - E_q0 f|` for functions with values
      in [-1, 1]; it is at most 2.
    - `prediction` is `sqrt(S / (2 pi))`, which bounds the same for functions with values in
      [0, 1], such as a predicted probability of the ensemble; it is at most 1.
    - `total_variation` is `erf(sqrt(S / 8))`, the largest difference that there is between
      expectations of a function with values in [0, 1]: with equal variances, `q` and `q0`
      differ along one direction only, by `sqrt(S)` standard deviations. It is never larger
      than `prediction`.

    If `S` is `2 pi` or more, the paper's bounds are vacuous: `is_vacuous` is true. This is the
    case for most layers in practice. A layer of 400,000 weights needs a log alpha of 11.1.
    Predictions often change far less than these bounds, which hold for all functions of the
    weights; compare `tfvn.zero_mean_predict` with `tfvn.ensemble_predict`.

    The numbers are for a sample of the weights that is used for a whole example. A layer with
    `estimator="local"` whose kernel is applied at several positions, as in a convolution,
    samples outputs at each position for itself, and its outputs can change more.

    Args:
        layer: A layer with a random kernel, which has been built; or a recurrent layer, a
            head or a wrapper with one such layer or cell inside. Besides Gaussian dropout, it
            may have any posterior with independent Gaussian weights. For a variance layer
            all numbers are zero.

    Returns:
        A `ZeroMeanBound` with `mmd`, `prediction`, `total_variation`, `is_vacuous` and
        `sum_inverse_alpha`. Random biases do not count: they keep their means.

    Example:

    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDense(3, initial_log_alpha=8.0)
    >>> layer.build((None, 4))
    >>> tfvn.zero_mean_bound(layer)
    ZeroMeanBound(mmd=0.05062, prediction=0.02531, total_variation=0.02531, is_vacuous=False)

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), theorem 1 (equation 12) and
      equation 38, for one alpha
    """
    inside = single_layer(layer)
    inside.posterior_distribution()  # raises if the layer has not been built
    kernels = kernel_posteriors(inside).values()
    return ZeroMeanBound(math.fsum(map(_sum_inverse_alpha, kernels)))


def _sum_inverse_alpha(posterior: Posterior) -> float:
    if posterior.zero_mean:
        return 0.0
    if posterior.law != "gaussian":
        raise ValueError(
            "The bounds are for Gaussian weights; expected a layer with such a posterior. "
            f"Received: a posterior {type(posterior).__name__} with law={posterior.law!r}"
        )
    mean = np.asarray(posterior.mean(), "float64")
    kept = unpruned(posterior)
    if isinstance(kept, GaussianDropout) and not kept.is_additive:
        inverse = np.exp(-np.asarray(kept.log_alpha(), "float64"))
        # A weight with mean zero has no variance either: it is the same in both.
        return float(np.sum(np.where(mean == 0, 0.0, inverse)))
    # A pruned weight is zero in both as well. Its scale is that which it had.
    scale = np.asarray(kept.distribution().stddev(), "float64")
    return float(np.sum((mean / scale) ** 2))


class _ToVariance(PosteriorCopier):
    """Copies a model with variance layers in place of Gaussian-dropout layers."""

    def new_posterior(self, layer: RandomWeightsLayer) -> Posterior:
        return Variance()

    def changed_config(
        self, layer: RandomWeightsLayer, config: dict[str, Any]
    ) -> dict[str, Any]:
        changed = {**config, "prior": AUTO}
        for stem in _stems(layer):
            # It gave the first means; scales have their own default.
            changed[f"{stem}_initializer"] = None
        if layer.bias_posterior is not None:
            changed["bias_prior"] = _bias_prior(layer, config)
        return changed

    def fill_posterior(self, old: Any, new: Any) -> None:
        if old.is_additive:
            scale = np.exp(0.5 * old.log_variance_variable.numpy())
        else:
            # With the signs of the means, so that the same noise gives the same weights.
            scale = np.exp(0.5 * np.asarray(old.log_alpha())) * np.asarray(old.mean())
        new.scale.assign(scale)


def _bias_prior(layer: RandomWeightsLayer, config: dict[str, Any]) -> Any:
    """Returns the prior of a random bias as it is, independently of the kernel's."""
    prior = config.get("bias_prior", AUTO)
    if not (isinstance(prior, str) and prior == AUTO):
        return prior
    prior = config.get("prior", AUTO)
    is_default = isinstance(prior, str) and prior == AUTO
    return layer.posterior.default_prior if is_default else prior


def _stems(layer: RandomWeightsLayer) -> list[str]:
    """Returns the stems of a layer's arguments for its kernels: `"kernel"`, ..."""
    return [layer.kernel_argument, *(["recurrent"] if layer.is_recurrent else [])]


def _check_means_are_plain(layer: Any) -> None:
    for stem in _stems(layer):
        for kind in ("regularizer", "constraint"):
            name = f"{stem}_{kind}"
            if getattr(layer, name) is not None:
                raise ValueError(
                    f"`{name}` acts on means, which a variance layer does not have; set "
                    f"it to `None` on the layer before the conversion. Received: layer "
                    f"{layer.name!r} with {name}={getattr(layer, name)!r}"
                )


def _smallest_log_alpha(layer: RandomWeightsLayer) -> float:
    kernels: Any = kernel_posteriors(layer).values()
    return min(float(np.min(kernel.log_alpha())) for kernel in kernels)


def _described(layers: list[RandomWeightsLayer]) -> str:
    return ", ".join(map(_described_layer, layers))


def _described_layer(layer: RandomWeightsLayer) -> str:
    if isinstance(layer.posterior, GaussianDropout):
        return f"{layer.name!r} with {_smallest_log_alpha(layer):.3g}"
    if isinstance(unpruned(layer.posterior), GaussianDropout):
        return (
            f"{layer.name!r} with pruned weights (convert first, then prune the result)"
        )
    return f"{layer.name!r} without log alpha"
