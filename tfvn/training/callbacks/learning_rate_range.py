"""The learning rate range test: which learning rates a model can be trained with."""

import math
from typing import Any

import keras
import numpy as np

from tfvn.training.callbacks.run_state import variables_of_run
from tfvn.training.callbacks.steps import Guard
from tfvn.training.group_optimizer import of_groups, of_model
from tfvn.training.learning_rates import require_settable
from tfvn.utils.validation import check_count, check_number


class LearningRateRange(Guard):
    """Raises the learning rate batch by batch, and records the loss.

    The rate grows geometrically from `start` to `end`. Training stops at `end`, or as soon
    as the loss explodes. When `fit` returns, the callback has restored the model, its noise
    streams, its optimizers and their rates exactly. It also restores them if a step raises
    an error or is interrupted. After any other error in a stock `keras.Model`, call
    `restore()`. The metrics that `fit` shows are those of the last batch alone.

    The optimizers' rates must be numbers, and the model must be built. Let `fit` run for
    at least `steps` batches.

    Args:
        start: The first rate.
        end: The last rate.
        steps: Number of batches from `start` to `end`.
        group: In a dictionary of optimizers, the group whose rate is raised; the other
            groups keep their rates. `None` gives all groups the same rate.
        stop_factor: The test stops when the smoothed loss is this many times its best
            value.
        smoothing: The weight of the past in the moving average of the loss, in [0, 1).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> model.compile({"mean": "sgd", "scale": "sgd"}, "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> test = tfvn.callbacks.LearningRateRange(1e-4, 1e-1, steps=4, group="mean")
    >>> history = model.fit(x, y, batch_size=2, callbacks=[test], verbose=0)
    >>> [round(rate, 4) for rate in test.history["learning_rate"]]
    [0.0001, 0.001, 0.01, 0.1]

    Reference:

    - [Smith, 2017](https://arxiv.org/abs/1506.01186), section 3.3
    """

    def __init__(
        self,
        start: float = 1e-6,
        end: float = 1.0,
        steps: int = 100,
        group: str | None = None,
        stop_factor: float = 4.0,
        smoothing: float = 0.9,
    ):
        super().__init__()
        self.start = check_number("start", start)
        self.end = check_number("end", end)
        if not 0 < self.start < self.end:
            raise ValueError(
                "Arguments `start` and `end` must be finite, with 0 < start < end. "
                f"Received: start={start}, end={end}"
            )
        self.steps = check_count("steps", steps, least=2)
        self.group = group
        # With an infinite factor the test always runs to its end.
        if stop_factor != math.inf:
            stop_factor = check_number("stop_factor", stop_factor, above=1)
        self.stop_factor = stop_factor
        self.smoothing = check_number("smoothing", smoothing, least=0, below=1)
        self.history: dict[str, list[float]] = {}

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        if self.group is None:
            optimizer = of_model(model)
            self._optimizers = getattr(optimizer, "optimizers", [optimizer])
        else:
            optimizer = of_groups(model, [self.group], type(self).__name__)
            self._optimizers = [optimizer.groups[self.group]]
        for each in self._optimizers:
            require_settable(each, type(self).__name__)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.model.built:
            raise ValueError(
                "The model must be built before `fit`, because `LearningRateRange` "
                "restores its initial weights; build it first, or give it a "
                f"`keras.Input`. Received: model={self.model.name!r}, which is not "
                "built"
            )
        self.history = {"learning_rate": [], "loss": [], "smoothed_loss": []}
        self._average = 0.0
        self._variables = variables_of_run(self.model)
        self._values = [keras.ops.convert_to_numpy(v) for v in self._variables]
        super().on_train_begin(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        # Metrics average over the epoch, but the test needs the loss of this batch alone.
        self.model.reset_metrics()
        step = len(self.history["loss"])
        rate = self.start * (self.end / self.start) ** (step / (self.steps - 1))
        for optimizer in self._optimizers:
            optimizer.learning_rate = rate
        self.history["learning_rate"].append(rate)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        loss = float((logs or {})["loss"])
        history = self.history
        history["loss"].append(loss)
        step = len(history["loss"])
        self._average = self.smoothing * self._average + (1 - self.smoothing) * loss
        # Corrects for the initial value 0 of the average.
        smoothed = self._average / (1 - self.smoothing**step)
        history["smoothed_loss"].append(smoothed)
        best = min(history["smoothed_loss"])
        # For a positive loss this is `stop_factor` times the best. A negative loss may
        # rise by the same amount.
        limit = best + (self.stop_factor - 1) * abs(best)
        if not math.isfinite(loss) or smoothed > limit or step == self.steps:
            self.model.stop_training = True

    def undo(self, in_time: bool) -> None:
        # If the error is from an earlier `fit`, the user may have set other weights since.
        if in_time:
            self.restore()

    def restore(self) -> None:
        """Restores the model and its optimizers to their state before the test."""
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value)

    def suggestion(self) -> float:
        """Returns the rate at which the smoothed loss fell most steeply."""
        losses = np.array(self.history.get("smoothed_loss", []))
        losses = losses[np.isfinite(losses)]
        # After its minimum the loss explodes.
        losses = losses[: losses.argmin() + 1] if losses.size else losses
        if losses.size < 2:
            raise ValueError(
                "The loss must fall during the test before a learning rate can be "
                "suggested; run `fit` again with a lower `start`. Received: "
                f"{losses.size} losses up to the lowest"
            )
        rates = np.array(self.history["learning_rate"][: losses.size])
        return float(rates[np.gradient(losses, np.log(rates)).argmin()])

    def plot(self, path: Any = None) -> Any:
        """Returns a figure of the smoothed loss against the rate.

        Args:
            path: Where to save the figure, or `None`.
        """
        # Imported here because the library does not require Matplotlib.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        count = len(self.history.get("smoothed_loss", []))
        rates = self.history.get("learning_rate", [])[:count]
        axes.plot(rates, self.history.get("smoothed_loss", []))
        axes.set(xscale="log", xlabel="learning rate", ylabel="loss, smoothed")
        if path is not None:
            figure.savefig(path)
        return figure
