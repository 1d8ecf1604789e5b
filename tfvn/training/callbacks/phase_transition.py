"""Whether the accuracy of a network comes from its means or from its variances."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import stochastic_layers
from tfvn.posteriors.gaussian_dropout import GaussianDropout
from tfvn.posteriors.pruned import unpruned
from tfvn.prediction import ensemble_predict, mean_predict, zero_mean_predict
from tfvn.utils.validation import check_count


class PhaseTransition(keras.callbacks.Callback):
    """Logs the accuracy of a classifier with its means only, its noise only, and both.

    When `alpha` grows, a Gaussian-dropout layer goes through a phase transition: with mean
    weights the accuracy falls to chance, while the ensemble stays as accurate as before. After
    each epoch the callback logs

    - `accuracy_mean`: every random weight replaced by its mean;
    - `accuracy_one_sample`: one draw of the noise;
    - `accuracy_ensemble`: the averaged probabilities of `num_samples` draws;
    - `accuracy_zero_mean`: the same, with the means of the Gaussian-dropout layers set to
      zero and their variances as they are; only for models with such layers;
    - `log_alpha_<layer name>`: the mean log alpha of each Gaussian-dropout layer.

    The draws come from `tfvn.ensemble_predict` and `tfvn.zero_mean_predict`, with another
    seed in every epoch. An epoch costs `2 num_samples + 1` more passes over these data. The
    callback does not change training in any bit: it only reads the weights, and does not
    advance seed generators.

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

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        model: Any = self.model
        layers: list[Any] = stochastic_layers(model)
        dropout_layers = [
            layer
            for layer in layers
            if isinstance(unpruned(layer.posterior), GaussianDropout)
        ]
        mean = mean_predict(model, self.x, self.batch_size)
        options: Any = {
            "num_samples": self.num_samples,
            "batch_size": self.batch_size,
            "seed": epoch,
            "outputs": _kind(mean),
            "verbose": 0,
        }
        answer = ensemble_predict(model, self.x, return_samples=True, **options)
        figures = {
            "accuracy_mean": self._accuracy(mean),
            "accuracy_one_sample": self._accuracy(answer.samples[:, 0]),
            "accuracy_ensemble": self._accuracy(answer.mean),
        }
        if dropout_layers:
            answer = zero_mean_predict(model, self.x, **options)
            figures["accuracy_zero_mean"] = self._accuracy(answer.mean)
        for layer in dropout_layers:
            log_alpha = tf.reduce_mean(unpruned(layer.posterior).log_alpha())
            figures[f"log_alpha_{layer.name}"] = float(log_alpha)
        logs.update(figures)
        if self.verbose:
            text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
            print(f"\nEpoch {epoch + 1}: {text}")

    def _accuracy(self, probabilities: np.ndarray) -> float:
        labels = self.y
        if labels.shape == probabilities.shape:
            labels = labels.argmax(axis=-1)
        elif labels.ndim == probabilities.ndim and labels.shape[-1] == 1:
            labels = labels[..., 0]
        if labels.shape != probabilities.shape[:-1]:
            raise ValueError(
                "The labels in `validation_data` must be integers or one-hot, for "
                f"outputs of shape {probabilities.shape}. Received: labels of shape "
                f"{self.y.shape}"
            )
        return float((probabilities.argmax(axis=-1) == labels).mean())


def _kind(outputs: Any) -> str:
    """Returns whether the outputs of a classifier are probabilities or logits."""
    if outputs.ndim < 2 or outputs.shape[-1] < 2:
        raise ValueError(
            "The model must predict at least two classes, with one output for each. "
            f"Received: outputs of shape {outputs.shape}"
        )
    # The tolerance allows for half precision.
    sums = outputs.astype("float64").sum(axis=-1)
    is_simplex = (outputs >= 0).all() and np.allclose(sums, 1.0, atol=1e-2)
    return "probabilities" if is_simplex else "logits"
