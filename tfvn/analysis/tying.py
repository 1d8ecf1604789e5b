"""Tying: the standard deviations of trained layers, approximated by low rank."""

from typing import Any

import keras
import numpy as np

from tfvn.analysis.factors import low_rank_scales, nearest_factors
from tfvn.analysis.posterior_copies import PosteriorCopier
from tfvn.analysis.selection import ALL, chosen_parts, is_all, kernel_posteriors
from tfvn.analysis.spectrum import scale_matrix
from tfvn.layers.base import RandomWeightsLayer
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Posterior
from tfvn.posteriors.pruned import unpruned
from tfvn.priors import AUTO
from tfvn.utils.validation import check_choice, check_count

POSTERIORS = ("k_tied", "mean_field")


def tie(
    model: keras.Model, rank: int = 2, posterior: str = "k_tied", layers: Any = ALL
) -> Any:
    """Returns a copy of a trained model whose scales have a low rank.

    The standard deviations of a trained mean-field layer are often nearly a matrix of rank
    2. This function replaces them by such a matrix, after training. The layers keep their
    means, biases, priors and estimators, and the copy is compiled as the model is, so that
    you can evaluate it, train it further, save and export it. The model does not change.

    With `posterior="k_tied"` the layers become k-tied layers, which store about half as many
    numbers, with the positive factors that `tfvn.tie` finds by a non-negative matrix
    factorisation. With `posterior="mean_field"` they stay mean-field layers, and their
    scales are the truncated singular value decomposition, as in the paper; values below a
    tenth of the kernel's smallest scale, which may be negative, are raised to it. Of all
    matrices of that rank, the truncated decomposition is the nearest to the scales; that of
    a k-tied layer is a little farther away, because its factors are positive.

    Of the model's layers, these can be tied: mean-field layers; k-tied layers of a higher
    rank (of a lower rank they keep their scales); and Gaussian-dropout layers with
    `parameterization="additive"`, which have a scale for each weight too. Both kernels of a
    recurrent layer are tied. Biases are not.

    Args:
        model: A model that has been built. A model with a `call` of its own can be tied if
            Keras can make it again from its config.
        rank: Rank of the scales, at most the smaller side of each kernel as a matrix.
        posterior: `"k_tied"` or `"mean_field"`.
        layers: `"all"` for all layers that can be tied; or a layer, its name, or a list of
            these, which must all be layers that can be tied.

    Returns:
        A `tfvn.Sequential` or a `tfvn.Model`.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((8,)), tfvn.MeanFieldDense(4)])
    >>> tied = tfvn.tie(model, rank=2)
    >>> type(tied.layers[0]).__name__, model.count_params(), tied.count_params()
    ('KTiedDense', 68, 60)

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), section 2 and appendix E
    """
    rank = check_count("rank", rank)
    check_choice("posterior", posterior, POSTERIORS)
    asked = chosen_parts(model, layers)
    reasons = [_reason_against(layer) for layer in asked]
    chosen = [layer for layer, why in zip(asked, reasons, strict=True) if why is None]
    is_named = not is_all(layers)
    if not chosen or (is_named and len(chosen) < len(asked)):
        pairs = zip(asked, reasons, strict=True)
        refused = [f"{layer.name!r}, {why}" for layer, why in pairs if why]
        raise ValueError(
            "The layers that can be tied are mean-field layers, k-tied layers and "
            "Gaussian-dropout layers with `parameterization='additive'`; expected "
            f"{'no others in `layers`' if is_named else 'at least one in `model`'}. "
            f"Received: {'; '.join(refused)}"
        )
    for layer in chosen:
        _check_rank(layer, rank)
    return _Tie(chosen, rank, posterior).copy(model)


class _Tie(PosteriorCopier):
    """Copies a model, and ties the scales of some layers.

    Args:
        chosen: The layers and cells whose scales are tied.
        rank: The rank.
        posterior: `"k_tied"` or `"mean_field"`.
    """

    def __init__(self, chosen: list[RandomWeightsLayer], rank: int, posterior: str):
        self._rank, self._is_k_tied = rank, posterior == "k_tied"
        super().__init__(
            layer for layer in chosen if not (self._is_k_tied and self._is_tied(layer))
        )

    def new_posterior(self, layer: RandomWeightsLayer) -> Posterior:
        if self._is_k_tied:
            return KTied(self._rank)
        is_same = isinstance(layer.posterior, MeanField)
        return layer.posterior.clone() if is_same else MeanField()

    def changed_config(
        self, layer: RandomWeightsLayer, config: dict[str, Any]
    ) -> dict[str, Any]:
        prior = config.get("prior", AUTO)
        is_default = isinstance(prior, str) and prior == AUTO
        if is_default and isinstance(layer.posterior, GaussianDropout):
            # Its default differs from that of the posterior which it gets.
            return {**config, "prior": layer.posterior.default_prior}
        return config

    def fill_posterior(self, old: Any, new: Any) -> None:
        new.mean_variable.assign(old.mean_variable.value)
        scales = scale_matrix(old)
        if self._is_k_tied:
            factors = nearest_factors(scales, self._rank)
            for variable, factor in zip(new.log_factors, factors, strict=True):
                variable.assign(np.log(factor))
        else:
            if not _has_rank(old, self._rank):
                scales = low_rank_scales(scales, self._rank)
            log_variance = 2.0 * np.log(old.spec.from_matrix(scales))
            new.log_variance_variable.assign(log_variance)

    def _is_tied(self, layer: RandomWeightsLayer) -> bool:
        kernels = kernel_posteriors(layer).values()
        return all(_has_rank(kernel, self._rank) for kernel in kernels)


def _has_rank(posterior: Any, rank: int) -> bool:
    """Whether the scales of a kernel have at most a rank by construction."""
    is_k_tied = isinstance(posterior, KTied)
    return is_k_tied and posterior.log_factors[0].shape[1] <= rank


def _reason_against(layer: RandomWeightsLayer) -> str | None:
    """Returns why the scales of a layer can't be tied, or `None` if they can."""
    posterior = unpruned(layer.posterior)
    is_additive = isinstance(posterior, GaussianDropout) and posterior.is_additive
    if isinstance(posterior, MeanField | KTied) or is_additive:
        is_pruned = posterior is not layer.posterior
        return "a pruned layer; tie first, then prune the result" if is_pruned else None
    if isinstance(posterior, GaussianDropout):
        return "a Gaussian-dropout layer whose scales are multiples of its means"
    if posterior.zero_mean:
        return "a variance layer, without the means that a tied layer has"
    return f"a layer with a {type(posterior).__name__} posterior"


def _check_rank(layer: RandomWeightsLayer, rank: int) -> None:
    for name, posterior in kernel_posteriors(layer).items():
        spec = posterior.spec
        largest = min(spec.rows, spec.columns)
        if rank > largest and not _has_rank(posterior, rank):
            raise ValueError(
                f"Argument `rank` must be at most {largest} for layer {layer.name!r}, "
                f"whose {name} has {spec.rows} rows and {spec.columns} columns; lower "
                f"it, or leave the layer out of `layers`. Received: rank={rank}"
            )
