"""From a trained network to one with random weights, and back."""

from typing import Any

import keras
import numpy as np

from tfvn import estimators, posteriors, priors
from tfvn.analysis.copies import BayesianCopier, compile_alike
from tfvn.analysis.counterparts import (
    LayerState,
    counterpart_of,
    layer_states,
    layers_to_convert,
)
from tfvn.analysis.starting_scales import check_posterior, start, typical_weight
from tfvn.layers import LikelihoodHead
from tfvn.layers.base import (
    NOT_TAKEN,
    RandomWeightsLayer,
    check_all_built,
    stochastic_layers,
)
from tfvn.posteriors import Posterior
from tfvn.prediction.drawn_model import PlainCopier
from tfvn.utils.custom_objects import with_functions
from tfvn.utils.model_copies import check_built
from tfvn.utils.validation import check_count, check_number

__all__ = [
    "LayerState",
    "counterpart_of",
    "from_deterministic",
    "layer_states",
    "to_deterministic",
]

Tensor = Any


def from_deterministic(
    model: keras.Model,
    posterior: Any = "mean_field",
    layers: Any = "all",
    scale: float = 0.1,
    *,
    prior: Any = "auto",
    estimator: Any = None,
    kl_method: str = "auto",
    kl_weight: float | None = None,
    bias_posterior: Any = None,
    bias_prior: Any = "auto",
    seed: int | None = None,
    train_size: int | None = None,
) -> Any:
    """Returns a copy of a trained model in which weights are distributions.

    The trained weights are the means, so that `tfvn.mean_predict` of the copy equals the
    predictions of the original. The standard deviation of a weight `w` is `scale * |w|`, or
    `scale` times a tenth of the layer's root mean square if that is more, so that no weight
    has a scale of zero. These scales are only a start: `tfvn.fit_scales` fits them to data.

    `Dense`, `EinsumDense`, `Conv1D`, `Conv2D`, `Conv3D`, `Conv2DTranspose`,
    `DepthwiseConv2D`, `LSTM` and `GRU` have a counterpart with random weights. They are
    found at any depth: in nested models, in `Bidirectional`, `TimeDistributed` and
    `keras.layers.RNN`, in `MultiHeadAttention`, and in layers and models that you have
    written. All other layers are copied with their state.
    `tfvn.analysis.conversion.layer_states` lists the layers and says why some have no
    counterpart. Names, activations, biases, regularizers, constraints, `trainable` flags and
    types are kept. Of a kernel with LoRA, the sum of the kernel and its adapter is kept.

    The default prior of a `"mean_field"` or `"k_tied"` posterior is `N(0, 2 / fan_in)`, the
    size of weights at the start of a training. With fixed means its mean does not matter;
    its scale is the largest that a weight gets on which the data do not depend. Where
    trained weights are much smaller than that, as in front of a batch normalization, pass a
    `prior` with a smaller scale.

    Args:
        model: A Keras model that has been built, of plain weights. A model with a `call` of
            its own can be converted if Keras can make it again from its config.
        posterior: `"mean_field"`, `"k_tied"` (which starts from the nearest positive
            factors of the scales), `"gaussian_dropout"` (with `alpha = scale^2`), or an
            instance of one of these, such as `tfvn.posteriors.KTied(rank=3)`.
        layers: `"all"` for all layers with a counterpart; `"last"` for the last layer with
            weights; a layer, its name, or a list of these, where a nested model or a wrapper
            means all in it; or a function that takes a layer with weights and returns
            whether to convert it.
        scale: Standard deviation of a weight relative to its size, positive.
        prior: Prior of each new layer, as in `tfvn.layers.Dense`.
        estimator: As in `tfvn.layers.Dense`.
        kl_method: As in `tfvn.layers.Dense`.
        kl_weight: As in `tfvn.layers.Dense`.
        bias_posterior: Posterior of the biases; `None` keeps plain biases.
        bias_prior: Prior of random biases.
        seed: Integer of at least 0, from which each new layer gets its own seed.
        train_size: Number of examples that the original was trained on. `evaluate` divides
            the KL by it; `fit` and `tfvn.fit_scales` find it from their data.

    Returns:
        A `tfvn.Sequential` or `tfvn.Model`, compiled as the original is, with a new
        optimizer. The original does not change.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    >>> converted = tfvn.from_deterministic(model, scale=0.2)
    >>> x = np.ones((2, 4))
    >>> bool(np.allclose(tfvn.mean_predict(converted, x), model.predict(x, verbose=0)))
    True
    >>> type(converted.layers[0])
    <class 'tfvn.layers.core.dense.Dense'>
    """
    _check_model(model)
    scale = check_number("scale", scale, above=0)
    seed = check_count("seed", seed, least=0, or_none=True)
    train_size = check_count("train_size", train_size, or_none=True)
    arguments = {
        "posterior": _checked_posterior("posterior", posterior),
        "prior": prior,
        "estimator": estimator,
        "kl_method": kl_method,
        "kl_weight": kl_weight,
        "bias_posterior": bias_posterior
        and _checked_posterior("bias_posterior", bias_posterior),
        "bias_prior": bias_prior,
    }
    chosen = layers_to_convert(model, layers)
    copy = _Converter(chosen, scale, arguments, seed).copy(model)
    if train_size is not None:
        copy.training_state.size.assign(train_size)
    return copy


def to_deterministic(model: keras.Model) -> Any:
    """Returns a copy of a model with plain Keras layers that have the mean weights.

    It predicts what `tfvn.mean_predict` does, and nothing in it is random at inference, so
    that it can be exported for TensorFlow Lite or ONNX. It undoes
    `tfvn.from_deterministic`: of a model that has not been trained since, all weights are
    exactly those of the original.

    Layers that draw noise in training only stay as they are, Keras's `Dropout` as well as
    `tfvn.MultiplicativeNoise`, `tfvn.NoisyDense` and similar layers; so does
    `tfvn.layers.LearnedScale`. To load a model with one of this library's from a file,
    import this library first. All other layers are Keras's own or the user's.

    Args:
        model: A model with random weights that has been built. A layer whose weights have
            mean zero is refused, because all that it has learned is in its variances.

    Returns:
        A `keras.Sequential` or `keras.Model`, or a model of the user's class, compiled as
        the original is. With one optimizer per group, it gets that of the means.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
    >>> plain = tfvn.to_deterministic(model)
    >>> type(plain.layers[0]) is keras.layers.Dense
    True
    """
    check_built(model)
    if not stochastic_layers(model):
        raise ValueError(
            "Argument `model` must have layers with random weights, to be replaced by "
            f"plain ones. Received: model={model.name!r} with none"
        )
    check_all_built(model)
    for layer in stochastic_layers(model):
        for name, posterior in layer.posteriors.items():
            if posterior.zero_mean:
                raise ValueError(
                    "Weights whose mean is always zero have no deterministic counterpart, "
                    "because they store what they learn in their variances; use "
                    "`tfvn.ensemble_predict`, or `tfvn.sample_model` for one draw. "
                    f"Received: layer {layer.name!r} of type {type(layer).__name__} with "
                    f"a {name} of posterior {posterior.alias!r}"
                )
    copy = _Means().copy(model)
    compile_alike(model, copy)
    return copy


class _Converter(BayesianCopier):
    """Copies models, with random weights in some layers.

    Args:
        chosen: The layers whose weights become random.
        scale: Standard deviations relative to the weights.
        arguments: Arguments of all new layers.
        seed: The seed from which each layer gets its own, or `None`.
    """

    def __init__(
        self,
        chosen: list[keras.Layer],
        scale: float,
        arguments: dict[str, Any],
        seed: int | None,
    ):
        self._chosen = {id(layer): index for index, layer in enumerate(chosen)}
        self._scale = scale
        self._arguments = arguments
        self._seeds: Any = None
        if seed is not None:
            # With the same seed, layers of the same shape would have the same noise.
            self._seeds = np.random.SeedSequence(seed).generate_state(len(chosen))

    def replaces(self, layer: keras.Layer) -> bool:
        return id(layer) in self._chosen

    def new_layer(self, layer: Any) -> keras.Layer:
        arguments = dict(self._arguments)
        if "bias" not in _weights(layer):
            arguments["bias_posterior"] = None
        if self._seeds is not None:
            arguments["seed"] = int(self._seeds[self._chosen[id(layer)]])
        left_out = {*NOT_TAKEN, *arguments}
        config = {k: v for k, v in layer.get_config().items() if k not in left_out}
        config = with_functions(layer, config)
        counterpart: Any = counterpart_of(layer)
        if issubclass(counterpart, LikelihoodHead):
            # Its config has the arguments of the dense layer as they were given.
            return counterpart.from_config({**config, **_serialized(arguments)})
        dtype = keras.dtype_policies.get(config.pop("dtype"))
        # Not `from_config`, which would wrap the errors about arguments.
        return counterpart(**config, **arguments, dtype=dtype)

    def fill(self, layer: Any, new: Any) -> None:
        weights = _weights(layer)
        holder = _holder(new)
        for name, posterior in holder.posteriors.items():
            values = weights.pop(name)
            typical = typical_weight(_weights(layer), name, posterior.spec.rows)
            start(posterior, values, self._scale, typical)
        if "bias" in weights:
            holder.bias.assign(weights["bias"])


class _Means(PlainCopier):
    """Copies models, with the means of random weights."""

    def weight(self, layer: RandomWeightsLayer, posterior: Posterior) -> Tensor:
        return posterior.mean()


def _holder(layer: Any) -> Any:
    """Returns the layer that has the weights: the cell of a recurrent layer, or itself."""
    if isinstance(layer, keras.layers.RNN):
        return layer.cell
    return layer.dense if isinstance(layer, LikelihoodHead) else layer


def _weights(layer: Any) -> dict[str, np.ndarray]:
    """Returns the kernels and the bias of a plain layer, by name."""
    holder = _holder(layer)
    names = ("kernel", "recurrent_kernel", "bias")
    values = {name: getattr(holder, name, None) for name in names}
    return {
        name: np.asarray(keras.ops.convert_to_numpy(value))
        for name, value in values.items()
        if value is not None
    }


def _serialized(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments of a layer as a config has them."""
    bias, estimator = arguments["bias_posterior"], arguments["estimator"]
    return {
        **arguments,
        "posterior": posteriors.serialize(arguments["posterior"]),
        "bias_posterior": bias and posteriors.serialize(bias),
        "estimator": estimator and estimators.serialize(estimators.get(estimator)),
        **{
            name: priors.to_config(priors.get(arguments[name]))
            for name in ("prior", "bias_prior")
        },
    }


def _checked_posterior(name: str, posterior: Any) -> Posterior:
    found = posteriors.get(posterior)
    check_posterior(name, found)
    return found


def _check_model(model: Any) -> None:
    check_built(model)
    random = stochastic_layers(model)
    if random:
        raise ValueError(
            "Argument `model` must have plain weights only; convert the original, and name "
            f"all layers to convert in `layers`. Received: model={model.name!r}, in which "
            f"{[layer.name for layer in random]} have random weights already"
        )
