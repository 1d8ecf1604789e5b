"""Logs the evidence lower bound, averaged over draws of the noise."""

from typing import Any

import keras
import numpy as np

from tfvn.training.lower_bound import evidence_lower_bound
from tfvn.utils.validation import check_count


class EvidenceLowerBound(keras.callbacks.Callback):
    """Logs the evidence lower bound of some data after epochs, averaged over draws.

    The logs of `fit` average over an epoch in which the weights change, with one draw for
    each example. This callback evaluates all examples with the weights at the end of the
    epoch, and logs `lower_bound`, `data_term` and `kl_term`, in nats and summed over all
    examples, as `tfvn.evidence_lower_bound` returns them. It does not change training in
    any bit.

    Args:
        data: A tuple `(x, y)` of arrays, usually the training data.
        num_samples: Number of draws.
        batch_size: Number of rows at a time.
        every: Log after every so many epochs; the other epochs log NaN.
        seed: Integer that fixes the draws, the same in every epoch.
        batch_statistics: As in `tfvn.evidence_lower_bound`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(3, activation="softmax")
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> x, y = np.ones((8, 4)), np.ones(8)
    >>> watch = tfvn.callbacks.EvidenceLowerBound((x, y), num_samples=2)
    >>> history = model.fit(x, y, callbacks=[watch], verbose=0).history
    >>> history["lower_bound"][0] == history["data_term"][0] - history["kl_term"][0]
    True
    """

    def __init__(
        self,
        data: Any,
        num_samples: int = 10,
        batch_size: int = 256,
        every: int = 1,
        seed: int = 0,
        batch_statistics: bool = False,
    ):
        super().__init__()
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise ValueError(
                "Argument `data` must be a tuple `(x, y)` of arrays. "
                f"Received: data={type(data).__name__}"
            )
        self.x, self.y = data
        self.num_samples = check_count("num_samples", num_samples)
        self.batch_size = check_count("batch_size", batch_size)
        self.every = check_count("every", every)
        self.seed = seed
        self.batch_statistics = batch_statistics

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        bound = (np.nan, np.nan, np.nan)
        if (epoch + 1) % self.every == 0:
            bound = evidence_lower_bound(
                self.model,
                self.x,
                self.y,
                num_samples=self.num_samples,
                batch_size=self.batch_size,
                seed=self.seed,
                batch_statistics=self.batch_statistics,
            )
        if logs is not None:
            names = ("lower_bound", "data_term", "kl_term")
            logs.update(zip(names, bound, strict=True))
