"""How much of the gradients of the scales is signal."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import StochasticLayer
from tfvn.layers.inside import stochastic_layers

Tensor = Any


class GradientSNR(keras.callbacks.Callback):
    """Logs the signal-to-noise ratio of the gradients of a layer's scales.

    At the end of each epoch these are the gradients of the last `window` batches that the
    model was trained on, as in the paper. With `data` they are, instead, those of `window`
    batches drawn from it, all at the weights of that moment: then no progress between
    batches counts as noise. Logged are, averaged over the parameters and before any
    clipping,

    - `snr_<layer name>`, the dimensionless `E[g]^2 / Var[g]`. It is biased: where there is
      no signal at all it is about `1 / (window - 3)`, not 0.
    - `snr_paper_<layer name>`, the k-tied paper's `E[g^2] / Var[g^2]`. It has units:
      scaling the loss by 0.1 multiplies it by 100.

    Parameters whose gradients do not vary are left out; without any other, it is NaN.
    Training is not changed, to the bit. Without `data` the gradients of the last batches
    are kept in memory; with it, an epoch costs `window` more training steps.

    Args:
        layer: A layer with a random kernel, or its name.
        window: Number of batches, at least 2.
        data: Where batches are drawn from: `None` for those of training, a tuple of
            arrays `(x, y)` or `(x, y, sample_weight)`, or a batched `tf.data.Dataset` of
            such tuples.
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
    >>> snr = tfvn.callbacks.GradientSNR(layer, window=4)
    >>> history = model.fit(x, y, batch_size=2, callbacks=[snr], verbose=0).history
    >>> sorted(history)[-2:]
    ['snr_last', 'snr_paper_last']

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), footnote 2
    """

    def __init__(
        self,
        layer: StochasticLayer | str,
        window: int = 10,
        data: Any = None,
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
        if data is not None and not isinstance(data, tuple | tf.data.Dataset):
            raise ValueError(
                "Argument `data` must be a tuple `(x, y)`, a `tf.data.Dataset` or `None`. "
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
        if self.data is None:
            self._record_training()
        self._gradients = tf.function(
            self._step, autograph=False, reduce_retracing=True
        )

    def on_train_end(self, logs: Any = None) -> None:
        if self.data is None:
            del self.model.optimizer.apply_gradients
            self.model.train_function = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        if self.data is None:
            seen = min(int(self._count.numpy()), self.window)
            gradients = self._recorded.numpy()[:seen]
        else:
            with preserved_state(self.model):
                batches = self._batches(epoch)
                gradients = np.stack([self._gradients(batch) for batch in batches])
        name = self._layer.name
        logs[f"snr_{name}"], logs[f"snr_paper_{name}"] = signal_to_noise(gradients)

    def _record_training(self) -> None:
        """Lets the optimizer keep the gradients of the last batches it is given."""
        scales = _scales(self._layer)
        size = sum(int(np.prod(scale.shape)) for scale in scales)
        self._recorded = tf.Variable(tf.zeros((self.window, size)), trainable=False)
        self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        apply_gradients = self.model.optimizer.apply_gradients

        def record_and_apply(grads_and_vars: Any) -> Any:
            pairs = list(grads_and_vars)
            recorder = _Recorder(self.model.optimizer)
            recorder.apply_gradients(pairs)
            row = self._count % self.window
            self._recorded[row].assign(recorder.gradients_of(scales))
            self._count.assign_add(1)
            return apply_gradients(pairs)

        # Of this optimizer alone, until training ends, and in a trace of its own.
        self.model.optimizer.apply_gradients = record_and_apply
        self.model.train_function = None

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
        return recorder.gradients_of(_scales(self._layer))


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

    def gradients_of(self, variables: list[keras.Variable]) -> Tensor:
        """Returns the gradients of some variables, in one vector."""
        found = [self.gradients[id(variable)] for variable in variables]
        return tf.concat([tf.reshape(gradient, [-1]) for gradient in found], axis=0)


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
