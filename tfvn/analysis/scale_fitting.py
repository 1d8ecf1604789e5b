"""Fits the scales of random weights to data, and leaves all else as it is."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import RandomWeightsLayer, stochastic_layers
from tfvn.prediction.data import labelled_rows
from tfvn.prediction.rows import as_tensor
from tfvn.training.bayesian_training import BayesianTraining
from tfvn.training.draws import BatchLossError, LogMeanExpLoss
from tfvn.training.groups import variable_groups
from tfvn.utils import private, private_training
from tfvn.utils.models import all_layers
from tfvn.utils.validation import check_count, check_number

# The scales still change if the logarithm of a typical one moves more than this in the second
# half of the training: by a quarter.
_STILL_MOVING = 0.25

# Draws differ too little if their spread is less than this fraction of how far the
# predictions differ between examples.
_SMALLEST_SPREAD = 1e-3
_CHECKED_ROWS = 128

# Validation data are predicted worse if their negative log-likelihood rises by this fraction,
# or by the square of it in nats.
_WORSE = 0.1
_CHECKED_DRAWS = 8


def fit_scales(
    model: keras.Model,
    x: Any,
    y: Any = None,
    epochs: int = 10,
    learning_rate: float = 0.05,
    **kwargs: Any,
) -> keras.callbacks.History:
    """Trains the scales of random weights alone, on the evidence lower bound.

    This is the shortest way from a converted model to a spread that means something. All
    means, plain weights and biases, and the statistics of batch normalization, are the same
    afterwards as before, and so are `trainable` flags and the optimizer that the model is
    compiled with. Scales of frozen layers are not trained.

    The logarithms of the scales are trained, by Adam, which moves each by up to about
    `learning_rate` per batch. The rate falls linearly from epoch to epoch. The loss and the
    weight of the KL are those that the model is compiled with.

    With few examples for many weights, the whole KL makes the scales too large: predictions
    for data like those of the training become less certain than they should be. Convert
    with `tfvn.from_deterministic(model, kl_weight=0.1)` or less then. With
    `validation_data`, a warning says if they are predicted worse afterwards than before.

    Args:
        model: A model with random weights that is compiled, for instance the result of
            `tfvn.from_deterministic`.
        x: As in `keras.Model.fit`.
        y: As in `keras.Model.fit`.
        epochs: Number of epochs.
        learning_rate: Learning rate of Adam in the first epoch.
        **kwargs: Further arguments of `keras.Model.fit`, such as `validation_data`.

    Returns:
        The history of `fit`. A warning says if the scales still change a lot when the
        training ends, if the predictions hardly vary between draws, or if validation data
        are predicted worse than before.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> x = np.random.default_rng(0).normal(size=(64, 4))
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> history = model.fit(x, x.sum(1), epochs=3, verbose=0)
    >>> converted = tfvn.from_deterministic(model)
    >>> history = tfvn.fit_scales(converted, x, x.sum(1), epochs=30, verbose=0)
    >>> bool(history.history["elbo"][-1] > history.history["elbo"][0])
    True
    """
    epochs = check_count("epochs", epochs)
    learning_rate = check_number("learning_rate", learning_rate, above=0)
    _check_model(model)
    scales = _scales(model)
    # Scales may shrink by orders of magnitude, and their gradients with them; the usual
    # average over a thousand steps would remember the largest for too long.
    optimizer = keras.optimizers.Adam(learning_rate, beta_2=0.99)
    course = _Course(model, optimizer, epochs)
    given = kwargs.pop("callbacks", None)
    if isinstance(given, keras.callbacks.CallbackList):
        given = given.callbacks
    callbacks = [course, *keras.tree.flatten(given or [])]
    before = [tf.identity(variable.value) for variable in scales]
    check = _ValidationCheck(model, kwargs)
    with _only(model, scales), _optimized(model, optimizer):
        history = model.fit(x, y, epochs=epochs, callbacks=callbacks, **kwargs)
    _check_finite(scales, before)
    _warn_of_moves(course.moved)
    _warn_of_no_spread(model, x)
    check.warn()
    return history


class _Course(keras.callbacks.Callback):
    """Lowers the learning rate, and measures how far scales move in the second half.

    Args:
        model: The model.
        optimizer: The optimizer of the scales.
        epochs: Number of epochs.
    """

    def __init__(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer, epochs: int
    ):
        super().__init__()
        self._optimizer, self._epochs = optimizer, epochs
        self._rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        self._batches = 0
        self._middle = _log_scales(model)
        self.moved = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._optimizer.learning_rate = self._rate * (1.0 - epoch / self._epochs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        steps = self.params.get("steps")
        if steps and self._batches == steps * self._epochs // 2:
            self._middle = _log_scales(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.params.get("steps") and epoch + 1 == self._epochs // 2:
            self._middle = _log_scales(self.model)

    def on_train_end(self, logs: Any = None) -> None:
        change = np.abs(_log_scales(self.model) - self._middle)
        self.moved = float(np.median(change))


class _ValidationCheck:
    """Compares how well an ensemble predicts validation data, before and after the fit.

    Args:
        model: The model, before the fit.
        arguments: The arguments of `fit`, maybe with validation data.
    """

    def __init__(self, model: Any, arguments: dict[str, Any]):
        self._model = model
        self._batch = _validation_batch(model, arguments)
        self._before = self._nll()

    def warn(self) -> None:
        """Warns if the data are predicted worse than before."""
        before, after = self._before, self._nll()
        if before is None or after is None:
            return
        if after - before > _WORSE * max(abs(before), _WORSE):
            warnings.warn(
                "The validation data are predicted worse than before the scales were "
                "fitted, because the KL outweighs the data; convert the model with a "
                "smaller `kl_weight`, such as `tfvn.from_deterministic(model, "
                "kl_weight=0.1)`, or compile it with a smaller `kl_schedule`. Received: a "
                f"negative log-likelihood of {before:.3g} before and {after:.3g} after",
                stacklevel=3,
            )

    def _nll(self) -> float | None:
        """Returns the negative log-likelihood of the ensemble, or `None` without data."""
        if self._batch is None:
            return None
        x, y, weight = self._batch
        draws = [
            keras.tree.map_structure(
                tf.convert_to_tensor, self._model.predict(x, verbose=0)
            )
            for _ in range(_CHECKED_DRAWS)
        ]
        loss = LogMeanExpLoss(private_training.compiled_loss(self._model))
        try:
            return float(loss(y, draws, weight))
        except BatchLossError:
            return None  # There are no likelihoods of examples to compare.


def _validation_batch(model: Any, arguments: dict[str, Any]) -> Any:
    """Returns rows `(x, y, weight)` of the validation data, or `None` without any."""
    data = arguments.get("validation_data")
    if data is None or isinstance(data, Iterator):
        return None  # What is taken from an iterator would be missing.
    steps = arguments.get("validation_steps")
    x, y, weight = (data, None, None) if _has_batches(data) else (*data, None)[:3]
    rows = labelled_rows(model, x, y, weight, steps)
    batch = next(rows.batches(4 * _CHECKED_ROWS))
    return keras.tree.map_structure(as_tensor, batch)


def _log_scales(model: Any) -> np.ndarray:
    """Returns the logarithm of the scale of each weight that can be trained."""
    found = [
        0.5 * np.log(np.maximum(posterior.variance().numpy().ravel(), 1e-30))
        for layer in stochastic_layers(model)
        if layer.trainable
        for posterior in layer.posteriors.values()
    ]
    return np.concatenate(found)


def _check_model(model: Any) -> None:
    layers = stochastic_layers(model) if isinstance(model, keras.Model) else []
    if not layers:
        raise ValueError(
            "Argument `model` must be a Keras model with random weights; convert one with "
            "`tfvn.from_deterministic`. Received: "
            f"model={getattr(model, 'name', model)!r} with none"
        )
    if not model.compiled:
        raise ValueError(
            "The scales are fitted with the loss of the model; call `compile` first. "
            f"Received: model={model.name!r}, which is not compiled"
        )
    if not any(layer.has_kl for layer in layers):
        raise ValueError(
            "Without a KL the data would shrink every scale to nothing; expected a layer "
            "with a prior that its KL depends on. Received: "
            f"{[_described(layer) for layer in layers]}"
        )


def _described(layer: RandomWeightsLayer) -> str:
    return f"{layer.name!r} with posterior {layer.posterior.alias!r}, prior {layer.prior!r}"


def _scales(model: Any) -> list[keras.Variable]:
    scales = variable_groups(model)["scale"]
    if not scales:
        raise ValueError(
            "The scales of a layer are trained unless it is frozen or its posterior is "
            "fitted, as by `tfvn.last_layer_laplace`; expected another layer with random "
            "weights and `trainable=True`. Received: "
            f"model={model.name!r}, in which all such layers are frozen or fitted"
        )
    return scales


@contextlib.contextmanager
def _only(model: Any, scales: list[keras.Variable]) -> Iterator[None]:
    """Freezes all but some variables of a model, and afterwards restores what changed."""
    kept = set(map(id, scales))
    trained = [v for v in model.trainable_variables if id(v) not in kept]
    normalizations = [
        layer
        for layer in all_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]
    # Layers may also assign to variables by themselves, as batch normalization does.
    seeds = {
        id(generator.state)
        for layer in all_layers(model)
        for generator in private.seed_generators(layer)
    }
    others = [v for v in model.variables if id(v) not in kept | seeds]
    values = [tf.identity(variable.value) for variable in others]
    try:
        for layer in normalizations:
            # Uses its moving averages, instead of changing them.
            private.set_own_trainable(layer, value=False)
        for variable in trained:
            variable.trainable = False
        yield
    finally:
        for variable in trained:
            variable.trainable = True
        for layer in normalizations:
            private.set_own_trainable(layer, value=True)
        for variable, value in zip(others, values, strict=True):
            variable.assign(value)


@contextlib.contextmanager
def _optimized(model: Any, optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Gives a model another optimizer for a while, and keeps its place in the training."""
    own = model.optimizer
    if isinstance(own, keras.optimizers.LossScaleOptimizer):
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    state: dict[str, Any] = {}
    if isinstance(model, BayesianTraining):
        model.training_state.save_own_variables(state)
        if not state["train_size"]:
            del state["train_size"]  # `evaluate` needs the number that the fit finds.
    model.optimizer = optimizer
    # Steps that have been traced apply the other optimizer.
    model.train_function = None
    try:
        yield
    finally:
        model.optimizer = own
        model.train_function = None
        for name, value in state.items():
            _variable(model.training_state, name).assign(value)


def _variable(state: Any, name: str) -> keras.Variable:
    return next(variable for variable in state.variables if variable.name == name)


def _check_finite(scales: list[keras.Variable], before: list[Any]) -> None:
    """Raises if a scale is NaN or infinite, and then restores all of them."""
    if all(np.all(np.isfinite(variable.numpy())) for variable in scales):
        return
    for variable, value in zip(scales, before, strict=True):
        variable.assign(value)
    raise ValueError(
        "The scales became NaN or infinite, and have been set back; expected `x` and `y` "
        "with finite numbers, and a `learning_rate` at which the loss stays finite. "
        f"Received: {len(scales)} variables of scales that were trained"
    )


def _warn_of_moves(moved: float) -> None:
    if moved > _STILL_MOVING:
        warnings.warn(
            "The scales were still changing when the training ended, so that the spread of "
            "predictions depends on when that was; train for more `epochs`, or with another "
            "`learning_rate`. Received: a typical scale that changed by a factor of "
            f"{np.exp(moved):.2f} in the second half of the training",
            stacklevel=3,
        )


def _warn_of_no_spread(model: Any, x: Any) -> None:
    """Warns if the predictions for some of the data are the same in all draws."""
    if isinstance(x, Iterator):
        return  # What is taken from it would be missing.
    size = None if _has_batches(x) else _CHECKED_ROWS
    draws = [
        keras.tree.flatten(model.predict(x, batch_size=size, verbose=0, steps=1))
        for _ in range(_CHECKED_DRAWS)
    ]
    ratio = max(_spread(np.stack(outputs)) for outputs in zip(*draws, strict=True))
    if ratio < _SMALLEST_SPREAD:
        warnings.warn(
            "The predictions hardly vary between draws, so that their spread says nothing; "
            "use more `epochs` or a larger `learning_rate`, or convert with a larger `scale` "
            "or a wider `prior`. Received: a standard deviation over draws of "
            f"{ratio:.1e} times that between examples",
            stacklevel=3,
        )


def _spread(draws: np.ndarray) -> float:
    """Returns the spread of draws, which are on the first axis, relative to that of rows."""
    draws = draws.astype("float64")
    between = np.mean(np.std(np.mean(draws, axis=0), axis=0))
    return float(np.mean(np.std(draws, axis=0)) / max(between, 1e-30))


def _has_batches(x: Any) -> bool:
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset)
