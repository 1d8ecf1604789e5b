"""The signal-to-noise ratio of the gradients of the scales."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import RandomWeightsLayer, stochastic_layers
from tfvn.training.callbacks.steps import Guard, intercepted
from tfvn.utils.models import all_layers
from tfvn.utils.validation import check_count

Tensor = Any


class GradientSNR(Guard):
    """Logs the signal-to-noise ratio of the gradients of a layer's scales.

    At the end of each epoch it uses the gradients of the last `window` batches that the
    model was trained on, as in the paper. With `data` it uses the gradients of `window`
    batches sampled from `data` instead, all at the present weights, so that progress between
    batches does not count as noise. It logs ratios of the gradients before clipping:

    - `snr_median_<layer name>`, the median over the parameters of `E[g]^2 / Var[g]`. Read
      this one to compare layers or models.
    - `snr_pooled_<layer name>`, the sum over the parameters of `E[g]^2`, divided by the sum of
      `Var[g]`: the ratio of the gradient as one vector. Read it beside the median; it
      weighs parameters by the size of their gradients.
    - `snr_<layer name>`, the mean over the parameters of `E[g]^2 / Var[g]`. A few parameters
      that the data hardly reach decide it, such as the weights of pixels that are always
      zero: their gradients are those of the KL, almost without noise.
    - `snr_paper_<layer name>`, the mean of the k-tied paper's `E[g^2] / Var[g^2]`. It has
      units: scaling the loss by 0.1 multiplies it by 100.

    The first three have no units, and are biased: without any signal, the mean is about
    `1 / (window - 3)` and the pooled ratio about `1 / (window - 1)`, not 0.

    Parameters whose gradients do not vary count in the pooled ratio only; if no gradient
    varies, all are NaN. In mixed precision the gradients are those of the unscaled loss, and
    batches that the optimizer skips do not count. With gradient accumulation they are the
    gradients of single batches. The callback does not change training in any bit. Without
    `data` it keeps the gradients of the last batches in memory; with `data`, an epoch costs
    `window` additional training steps.

    Args:
        layer: A layer with a random kernel, such as a `tfvn.MeanFieldLSTM`; a wrapper
            around one, such as a `keras.layers.TimeDistributed`; or the layer's name.
        window: Number of batches, at least 2.
        data: Source of the batches: `None` for the training batches, a tuple of arrays
            `(x, y)` or `(x, y, sample_weight)`, or a batched `tf.data.Dataset` of such
            tuples.
        batch_size: Number of examples in a batch of arrays; use the batch size of `fit`.
        seed: Seed of the random choice of batches.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(1, name="last")
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> snr = tfvn.callbacks.GradientSNR(layer, window=4)
    >>> history = model.fit(x, y, batch_size=2, callbacks=[snr], verbose=0).history
    >>> sorted(history)[-4:]
    ['snr_last', 'snr_median_last', 'snr_paper_last', 'snr_pooled_last']

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), footnote 2
    """

    def __init__(
        self,
        layer: RandomWeightsLayer | str,
        window: int = 10,
        data: Any = None,
        batch_size: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        window = check_count("window", window, least=2)
        batch_size = check_count("batch_size", batch_size)
        if data is not None and not isinstance(data, tuple | tf.data.Dataset):
            raise ValueError(
                "Argument `data` must be a tuple `(x, y)`, a `tf.data.Dataset` or `None`. "
                f"Received: data={type(data).__name__}"
            )
        self.layer, self.data = layer, data
        self.window, self.batch_size, self.seed = window, batch_size, seed

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._name, self._layer = _find(model, self.layer)
        if self._layer.built:
            _scales(self._layer)
        if model.distribute_strategy.num_replicas_in_sync > 1:
            raise ValueError(
                "`GradientSNR` does not work with several replicas; train on one replica. "
                f"Received: {model.distribute_strategy.num_replicas_in_sync} replicas"
            )
        if self.data is None:
            model.train_function = None  # so that the step is traced with `_record`
        self._gradients = tf.function(
            self._step, autograph=False, reduce_retracing=True
        )

    def on_train_begin(self, logs: Any = None) -> None:
        if self.data is not None:
            return
        size = sum(int(np.prod(scale.shape)) for scale in _scales(self._layer))
        self._recorded = tf.Variable(tf.zeros((self.window, size)), trainable=False)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._has_seen_gradients = False
        super().on_train_begin(logs)

    def around_step(self) -> contextlib.AbstractContextManager:
        # During a step only, so that the optimizer never stays changed.
        return intercepted(self.model.optimizer, self._record)

    def undo(self, in_time: bool) -> None:
        self.model.train_function = None  # so that the step is traced without `_record`

    def get_state(self) -> dict[str, Any]:
        """Returns the recorded gradients, for a backup."""
        if self.data is not None:
            return {}
        return {"recorded": self._recorded.numpy(), "count": self._count.numpy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the recorded gradients of a run that was interrupted.

        Args:
            state: The result of `get_state`.
        """
        if state:
            self._recorded.assign(state["recorded"])
            self._count.assign(state["count"])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        if self.data is None:
            seen = min(int(self._count.numpy()), self.window)
            gradients = self._recorded.numpy()[:seen]
            if not self._has_seen_gradients:
                warnings.warn(self._none_seen(), stacklevel=2)
        else:
            with preserved_state(self.model):
                batches = self._batches(epoch)
                rows = [self._gradients(batch).numpy() for batch in batches]
            if hasattr(self.model.optimizer, "check_finite"):
                rows = [row for row in rows if np.isfinite(row).all()]
            gradients = np.stack(rows) if rows else np.zeros((0, 1))
        ratios = signal_to_noise(gradients)
        logs[f"snr_{self._name}"] = ratios.mean
        for kind in ("median", "pooled", "paper"):
            logs[f"snr_{kind}_{self._name}"] = getattr(ratios, kind)

    def _record(self, grads: list[Any], variables: list[Any]) -> None:
        """Records the gradients of a batch over those of `window` batches ago."""
        gradient = self._gradient(grads, variables)
        if gradient is None:
            return
        self._has_seen_gradients = True
        row = self._count % self.window
        is_kept = tf.constant(True)  # noqa: FBT003
        if hasattr(self.model.optimizer, "check_finite"):
            # If the loss scale is too large, the optimizer skips the batch.
            is_kept = self.model.optimizer.check_finite(grads)
        self._recorded[row].assign(tf.where(is_kept, gradient, self._recorded[row]))
        self._count.assign_add(tf.cast(is_kept, tf.int64))

    def _gradient(self, grads: list[Any], variables: list[Any]) -> Tensor | None:
        """Returns the gradients of the scales as one vector, or `None` if some are missing."""
        pairs = zip(grads, variables, strict=True)
        found = {id(variable): grad for grad, variable in pairs}
        scales = _scales(self._layer)
        if not all(id(scale) in found for scale in scales):
            return None
        # A variable that the loss does not depend on has no gradient.
        parts = [
            tf.zeros_like(scale.value) if found[id(scale)] is None else found[id(scale)]
            for scale in scales
        ]
        vector = tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)
        # The factor by which the optimizer has scaled the loss, for half precision.
        factor = self.model.optimizer.scale_loss(tf.ones(()))
        return tf.cast(vector, tf.float32) / tf.cast(factor, tf.float32)

    def _batches(self, epoch: int) -> Iterator[Any]:
        if isinstance(self.data, tf.data.Dataset):
            yield from self.data.repeat().take(self.window)
            return
        arrays = keras.tree.map_structure(np.asarray, self.data)
        size = len(keras.tree.flatten(arrays)[0])
        # Seeded with the epoch too, so that a resumed run chooses the same batches.
        rng = np.random.default_rng([self.seed, epoch])
        for _ in range(self.window):
            chosen = rng.choice(size, min(self.batch_size, size), replace=False)
            # Tensors, because the step would be retraced for every array.
            yield keras.tree.map_structure(
                lambda array, rows=chosen: tf.constant(array[rows]), arrays
            )

    def _none_seen(self) -> str:
        """Says that `train_step` has updated the scales without the optimizer."""
        return (
            "`GradientSNR` records the gradients that `train_step` passes to "
            "`model.optimizer.apply` or `apply_gradients`; let `train_step` update the "
            "layer's scales with `model.optimizer`. "
            f"Received: layer={self._name!r}, with no gradients for its scales"
        )

    def _step(self, batch: Any) -> Tensor:
        """Returns the gradients of the scales for a batch, as one vector."""
        seen: list[Tensor] = []

        def receive(grads: list[Any], variables: list[Any]) -> None:
            gradient = self._gradient(grads, variables)
            if gradient is not None:
                seen.append(gradient)

        # Runs the model's own step, but without updating any variable.
        with intercepted(self.model.optimizer, receive, applies=False):
            getattr(self.model, "run_train_step", self.model.train_step)(batch)
        if not seen:
            raise ValueError(self._none_seen())
        return seen[-1]


class SignalToNoise(NamedTuple):
    """Ratios of signal to noise of the gradients of many parameters.

    Attributes:
        mean: The mean over the parameters of `E[g]^2 / Var[g]`.
        median: Its median over the parameters.
        pooled: The sum of all `E[g]^2`, divided by the sum of all `Var[g]`.
        paper: The mean over the parameters of `E[g^2] / Var[g^2]`.
    """

    mean: float
    median: float
    pooled: float
    paper: float


def signal_to_noise(gradients: np.ndarray) -> SignalToNoise:
    """Returns the ratios for gradients with batches on axis 0 and parameters on axis 1."""
    gradients = np.asarray(gradients, "float64")
    signal, noise = gradients.mean(0) ** 2, gradients.var(0)
    ratios, squares = _ratios(signal, noise), gradients**2
    return SignalToNoise(
        mean=float(np.mean(ratios)),
        median=float(np.median(ratios)),
        pooled=float(signal.sum() / noise.sum()) if noise.any() else np.nan,
        paper=float(np.mean(_ratios(squares.mean(0), squares.var(0)))),
    )


def _ratios(signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Returns the ratios of the parameters that vary, or NaN if none does."""
    varies = noise > 0
    return signal[varies] / noise[varies] if varies.any() else np.array([np.nan])


@contextlib.contextmanager
def preserved_state(model: keras.Model) -> Iterator[None]:
    """Restores, after the context, the variables that a forward pass changes.

    These are noise streams, moving averages and metrics.
    """
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    counts = getattr(model, "training_state_variables", [])
    variables = [*model.non_trainable_variables, *metrics, *counts]
    values = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _find(model: keras.Model, layer: Any) -> tuple[str, RandomWeightsLayer]:
    """Returns the name of a layer in the logs, and the layer or cell that has its scales."""
    asked = [one for one in all_layers(model) if one is layer or one.name == layer]
    inside = [stochastic_layers(one) for one in asked]
    # A layer and its cell may have the same name; both lead to the same cell.
    found = {id(one): one for layers in inside if len(layers) == 1 for one in layers}
    if len(found) == 1:
        name = layer if isinstance(layer, str) else layer.name
        return name, next(iter(found.values()))
    names = [one.name for one in stochastic_layers(model)]
    received = f"Received: layer={getattr(layer, 'name', layer)!r}"
    if len(found) > 1:
        raise ValueError(
            f"Argument `layer` must be the name of exactly one layer, but {len(found)} "
            f"layers have this name; pass the layer itself. {received}"
        )
    if any(inside):
        names = [one.name for layers in inside for one in layers]
    raise ValueError(
        "Argument `layer` must be one of the layers with a random kernel, "
        f"{names}, or its name. {received}"
    )


def _scales(layer: RandomWeightsLayer) -> list[keras.Variable]:
    scales = [v for v in layer.variable_groups["scale"] if v.trainable]
    if not scales:
        raise ValueError(
            "Argument `layer` must be a layer with trainable scales. Received: "
            f"layer={layer.name!r}, which has none"
        )
    return scales
