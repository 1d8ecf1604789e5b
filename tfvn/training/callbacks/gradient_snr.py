"""How much of the gradients of the scales is signal."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import StochasticLayer
from tfvn.training.groups import stochastic_layers

Tensor = Any


class GradientSNR(keras.callbacks.Callback):
    """Logs the signal-to-noise ratio of the gradients of a layer's scales.

    At the end of each epoch the model's own training step computes the gradients of
    `window` random batches, each with noise of its own, and applies none: all are at the
    weights of that moment, where the paper takes the last batches of training. Logged
    are, averaged over the parameters and before any clipping,

    - `snr_<layer name>`, the dimensionless `E[g]^2 / Var[g]`. It is biased: where there is
      no signal at all it is about `1 / (window - 3)`, not 0.
    - `snr_paper_<layer name>`, the k-tied paper's `E[g^2] / Var[g^2]`. It has units:
      scaling the loss by 0.1 multiplies it by 100.

    Parameters whose gradients do not vary are left out; without any other, it is NaN.
    An epoch costs as much more as `window` training steps. Training is not changed, to
    the bit: noise streams, moving averages and metrics are put back.

    Args:
        layer: A layer with a random kernel, or its name.
        data: Where batches are drawn from: a tuple of arrays `(x, y)` or
            `(x, y, sample_weight)`, or a batched `tf.data.Dataset` of such tuples.
        window: Number of batches, at least 2.
        batch_size: Number of examples in a batch of arrays; take that of `fit`.
        seed: Seed of the choice of batches.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(1, name="last")
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> snr = tfvn.callbacks.GradientSNR(layer, (x, y))
    >>> history = model.fit(x, y, callbacks=[snr], verbose=0).history
    >>> sorted(history)[-2:]
    ['snr_last', 'snr_paper_last']

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), footnote 2
    """

    def __init__(
        self,
        layer: StochasticLayer | str,
        data: Any,
        window: int = 10,
        batch_size: int = 32,
        seed: int = 0,
    ):
        super().__init__()
        for name, value, least in (
            ("window", window, 2),
            ("batch_size", batch_size, 1),
        ):
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"Argument `{name}` must be an integer of at least {least}. "
                    f"Received: {name}={value!r}"
                )
        if not isinstance(data, tuple | tf.data.Dataset):
            raise ValueError(
                "Argument `data` must be a tuple `(x, y)` or a `tf.data.Dataset`. "
                f"Received: data={type(data).__name__}"
            )
        self.layer, self.data = layer, data
        self.window, self.batch_size, self.seed = window, batch_size, seed

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._layer = _find(model, self.layer)
        if self._layer.built:
            _scales(self._layer)
        if model.distribute_strategy.num_replicas_in_sync > 1:
            raise ValueError(
                "`GradientSNR` does not work with several replicas; train on one. "
                f"Received: {model.distribute_strategy.num_replicas_in_sync} replicas"
            )
        self._gradients = tf.function(
            self._step, autograph=False, reduce_retracing=True
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        with preserved_state(self.model):
            batches = self._batches(epoch)
            gradients = np.stack([self._gradients(batch) for batch in batches])
        name = self._layer.name
        logs[f"snr_{name}"], logs[f"snr_paper_{name}"] = signal_to_noise(gradients)

    def _batches(self, epoch: int) -> Iterator[Any]:
        if isinstance(self.data, tf.data.Dataset):
            yield from self.data.repeat().take(self.window)
            return
        flat = keras.tree.flatten(self.data)
        size = len(flat[0])
        # Of the epoch too, so that a run that resumes draws what it would have drawn.
        rng = np.random.default_rng([self.seed, epoch])
        for _ in range(self.window):
            chosen = rng.choice(size, min(self.batch_size, size), replace=False)
            arrays = [np.asarray(array)[chosen] for array in flat]
            # Tensors, because the step would be traced anew for every array.
            yield keras.tree.pack_sequence_as(
                self.data, [tf.constant(array) for array in arrays]
            )

    def _step(self, batch: Any) -> Tensor:
        """Returns the gradients of the scales, in one vector."""
        optimizer = self.model.optimizer
        recorder = _Recorder(optimizer)
        # The model's own step, whatever it is, but with nothing applied. This is undone
        # as soon as the step is traced.
        self.model.optimizer = recorder
        try:
            self.model.train_step(batch)
        finally:
            self.model.optimizer = optimizer
        found = [recorder.gradients[id(scale)] for scale in _scales(self._layer)]
        return tf.concat([tf.reshape(gradient, [-1]) for gradient in found], axis=0)


class _Recorder:
    """What a training step takes for an optimizer, and only notes the gradients."""

    def __init__(self, optimizer: keras.optimizers.Optimizer):
        self.iterations = optimizer.iterations
        self.gradients: dict[int, Tensor] = {}

    def scale_loss(self, loss: Tensor) -> Tensor:
        return loss

    def apply_gradients(self, grads_and_vars: Any) -> None:
        for grad, variable in grads_and_vars:
            # There is none for a variable that the loss does not depend on.
            grad = tf.zeros_like(variable.value) if grad is None else grad
            self.gradients[id(variable)] = tf.convert_to_tensor(grad)


def signal_to_noise(gradients: np.ndarray) -> tuple[float, float]:
    """Returns `E[g]^2 / Var[g]` and `E[g^2] / Var[g^2]` over axis 0, averaged over 1."""
    gradients = np.asarray(gradients, "float64")
    squares = gradients**2
    return (
        _mean_ratio(gradients.mean(0) ** 2, gradients.var(0)),
        _mean_ratio(squares.mean(0), squares.var(0)),
    )


def _mean_ratio(signal: np.ndarray, noise: np.ndarray) -> float:
    varies = noise > 0
    return float(np.mean(signal[varies] / noise[varies])) if varies.any() else np.nan


@contextlib.contextmanager
def preserved_state(model: keras.Model) -> Iterator[None]:
    """Puts back what a forward pass alters: noise streams, moving averages, metrics."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    variables = [*model.non_trainable_variables, *metrics]
    values = [keras.ops.convert_to_numpy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _find(model: keras.Model, layer: StochasticLayer | str) -> StochasticLayer:
    layers = stochastic_layers(model)
    for candidate in layers:
        if candidate is layer or candidate.name == layer:
            return candidate
    raise ValueError(
        "Argument `layer` must be one of the layers with a random kernel, "
        f"{[candidate.name for candidate in layers]}, or its name. "
        f"Received: layer={getattr(layer, 'name', layer)!r}"
    )


def _scales(layer: StochasticLayer) -> list[keras.Variable]:
    scales = [v for v in layer.variable_groups["scale"] if v.trainable]
    if not scales:
        raise ValueError(
            "Argument `layer` must be a layer with scales that are trained. "
            f"Received: layer={layer.name!r} with none"
        )
    return scales
