"""Where a network keeps what it knows: in its means, or in its variances."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import estimators
from tfvn.layers.inside import replaced_estimators, stochastic_layers
from tfvn.posteriors.gaussian_dropout import GaussianDropout
from tfvn.training.callbacks.gradient_snr import preserved_state
from tfvn.validation import check_count

Tensor = Any


class PhaseTransition(keras.callbacks.Callback):
    """Logs how well a classifier does by its means, by its noise, and by both.

    When `alpha` grows, a Gaussian-dropout layer goes through a phase transition: by its
    means the network falls to chance, while the ensemble stays as good as it was. After
    each epoch are logged

    - `accuracy_mean`: every random weight replaced by its mean;
    - `accuracy_one_sample`: one draw of the noise;
    - `accuracy_ensemble`: the probabilities of `num_samples` draws, averaged;
    - `accuracy_zero_mean`: the same, with the means of the Gaussian-dropout layers set to
      zero and their variances as they are; only for models with such layers;
    - `log_alpha_<layer name>`: of each Gaussian-dropout layer, the mean log alpha.

    Zero-mean layers draw outputs (`estimator="local"`), whatever their own estimator: the
    same law for each output element, though not their covariances. An epoch costs
    `2 num_samples + 1` more passes over these data. Training is not changed, to the bit:
    weights are only read, and noise streams are put back.

    Args:
        validation_data: A tuple `(x, y)` of arrays. The labels are integers or one-hot.
        num_samples: Number of draws that are averaged.
        batch_size: Number of examples that are evaluated at a time.
        verbose: Whether to print a line for each epoch.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDense(3, activation="softmax", name="last")
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> x, y = np.ones((8, 4)), np.ones(8)
    >>> watch = tfvn.callbacks.PhaseTransition((x, y), num_samples=2)
    >>> history = model.fit(x, y, callbacks=[watch], verbose=0).history
    >>> round(history["log_alpha_last"][0], 1)
    -5.0

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """

    def __init__(
        self,
        validation_data: Any,
        num_samples: int = 20,
        batch_size: int = 256,
        verbose: int = 0,
    ):
        super().__init__()
        if not isinstance(validation_data, tuple | list) or len(validation_data) != 2:
            raise ValueError(
                "Argument `validation_data` must be a tuple `(x, y)` of arrays. "
                f"Received: validation_data={type(validation_data).__name__}"
            )
        self.x = keras.tree.map_structure(np.asarray, validation_data[0])
        self.y = np.asarray(validation_data[1])
        self.num_samples = check_count("num_samples", num_samples)
        self.batch_size = check_count("batch_size", batch_size)
        self.verbose = verbose

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._as_is = self._forward(lambda layer: layer.estimator)
        self._mean = self._forward(lambda layer: estimators.MeanWeights())
        self._zero_mean = self._forward(
            lambda layer: (
                estimators.OnlyVariance() if _has_alpha(layer) else layer.estimator
            )
        )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        layers: list[Any] = stochastic_layers(self.model)
        dropout_layers = [layer for layer in layers if _has_alpha(layer)]
        figures = {}
        with preserved_state(self.model):
            figures["accuracy_mean"] = self._accuracy(self._draw(self._mean))
            first = self._draw(self._as_is)
            figures["accuracy_one_sample"] = self._accuracy(first)
            figures["accuracy_ensemble"] = self._ensemble(self._as_is, first)
            if dropout_layers:
                figures["accuracy_zero_mean"] = self._ensemble(self._zero_mean)
        for layer in dropout_layers:
            mean = tf.reduce_mean(layer.posterior.log_alpha())
            figures[f"log_alpha_{layer.name}"] = float(mean)
        logs.update(figures)
        if self.verbose:
            text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
            print(f"\nEpoch {epoch + 1}: {text}")

    def _forward(self, estimator_of: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
        def forward(x: Any) -> Tensor:
            # The estimators are replaced only for as long as the pass is traced.
            with replaced_estimators(self.model, estimator_of):
                return self.model(x, training=False)

        return tf.function(forward, autograph=False, reduce_retracing=True)

    def _draw(self, forward: Callable[[Any], Tensor]) -> np.ndarray:
        """Returns the class probabilities of one pass over the data."""
        outputs = []
        for start in range(0, len(self.y), self.batch_size):
            rows = slice(start, start + self.batch_size)
            batch = keras.tree.map_structure(
                lambda array, rows=rows: tf.convert_to_tensor(array[rows]), self.x
            )
            outputs.append(np.asarray(forward(batch), "float64"))
        return _probabilities(np.concatenate(outputs))

    def _ensemble(self, forward: Callable[[Any], Tensor], *drawn: np.ndarray) -> float:
        total = sum(drawn, np.zeros(()))
        for _ in range(self.num_samples - len(drawn)):
            total = total + self._draw(forward)
        return self._accuracy(total)

    def _accuracy(self, probabilities: np.ndarray) -> float:
        labels = self.y
        if labels.shape == probabilities.shape:
            labels = labels.argmax(axis=-1)
        elif labels.ndim == probabilities.ndim and labels.shape[-1] == 1:
            labels = labels[..., 0]
        if labels.shape != probabilities.shape[:-1]:
            raise ValueError(
                "The labels must be integers or one-hot, for outputs of shape "
                f"{probabilities.shape}. Received: labels of shape {self.y.shape}"
            )
        return float((probabilities.argmax(axis=-1) == labels).mean())


def _has_alpha(layer: Any) -> bool:
    return isinstance(layer.posterior, GaussianDropout)


def _probabilities(outputs: np.ndarray) -> np.ndarray:
    """Returns the outputs, through a softmax unless they are probabilities already."""
    if outputs.ndim < 2 or outputs.shape[-1] < 2:
        raise ValueError(
            "The model must have an output for each class, of at least two. "
            f"Received: outputs of shape {outputs.shape}"
        )
    # With room for half precision.
    if (outputs >= 0).all() and np.allclose(outputs.sum(axis=-1), 1.0, atol=1e-2):
        return outputs
    outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return outputs / outputs.sum(axis=-1, keepdims=True)
