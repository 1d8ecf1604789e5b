"""The range test: which learning rates a model can take."""

import math
from typing import Any

import keras
import numpy as np

from tfvn.training.callbacks.run_state import variables_of_run
from tfvn.training.callbacks.steps import Guard
from tfvn.training.group_optimizer import GroupOptimizer, of_model
from tfvn.training.learning_rates import require_settable
from tfvn.utils.validation import check_count, check_number


class LearningRateRange(Guard):
    """Raises the learning rate batch by batch, and records what the loss does.

    The rate grows geometrically from `start` to `end`; then, or as soon as the loss
    explodes, training stops. When `fit` returns, the model, its noise streams, its
    optimizers and their rates are what they were before, to the bit. So they are if a
    step raises or is interrupted; after another error in a `keras.Model`, call
    `restore()`. The metrics that `fit` shows are those of the last batch alone.

    The optimizers' rates must be numbers, and the model must be built. Let `fit` run for
    at least `steps` batches.

    Args:
        start: The first rate.
        end: The last rate.
        steps: Number of batches from one to the other.
        group: The group of a dictionary of optimizers whose rate is raised; the others
            keep theirs. `None` gives all of them the same rate.
        stop_factor: How many times the best loss ends the test.
        smoothing: The share of the past in the moving average of the loss, in [0, 1).

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
        # An infinite one is a test that goes on to its end.
        if stop_factor != math.inf:
            stop_factor = check_number("stop_factor", stop_factor, above=1)
        self.stop_factor = stop_factor
        self.smoothing = check_number("smoothing", smoothing, least=0, below=1)
        self.history: dict[str, list[float]] = {}

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        optimizer = of_model(model)
        if self.group is None:
            self._optimizers = getattr(optimizer, "optimizers", [optimizer])
        else:
            groups = optimizer.groups if isinstance(optimizer, GroupOptimizer) else {}
            if self.group not in groups:
                raise ValueError(
                    f"The optimizer has the groups {list(groups)}; expected `group` to "
                    f"be one of them. Received: group={self.group!r}"
                )
            self._optimizers = [groups[self.group]]
        for each in self._optimizers:
            require_settable(each, type(self).__name__)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.model.built:
            raise ValueError(
                "`LearningRateRange` restores the weights that a model starts with; "
                "build the model first, or give it a `keras.Input`. "
                f"Received: model={self.model.name!r}, not built"
            )
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.history = {"learning_rate": [], "loss": [], "smoothed_loss": []}
        self._average = 0.0
        self._variables = variables_of_run(self.model)
        self._values = [keras.ops.convert_to_numpy(v) for v in self._variables]
        super().on_train_begin(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        # Metrics are averages over the epoch so far; only this batch is of interest.
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
        # The average starts at 0; this takes its share out again.
        smoothed = self._average / (1 - self.smoothing**step)
        history["smoothed_loss"].append(smoothed)
        best = min(history["smoothed_loss"])
        # Of a positive loss, `stop_factor` times the best; a negative one may rise as far.
        limit = best + (self.stop_factor - 1) * abs(best)
        if not math.isfinite(loss) or smoothed > limit or step == self.steps:
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        super().on_train_end(logs)
        self.restore()

    def on_interrupted(self, in_time: bool) -> None:
        # Later, the model may have been given other weights.
        if in_time:
            self.restore()

    def restore(self) -> None:
        """Makes the model and its optimizers what they were before the test."""
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value)

    def suggestion(self) -> float:
        """Returns the rate at which the smoothed loss fell most steeply."""
        losses = np.array(self.history.get("smoothed_loss", []))
        losses = losses[np.isfinite(losses)]
        # What follows the lowest loss is the explosion.
        losses = losses[: losses.argmin() + 1] if losses.size else losses
        if losses.size < 2:
            raise ValueError(
                "A suggestion takes a loss that fell; run `fit` with this callback, from "
                f"a lower `start`. Received: {losses.size} losses up to the lowest"
            )
        rates = np.array(self.history["learning_rate"][: losses.size])
        return float(rates[np.gradient(losses, np.log(rates)).argmin()])

    def plot(self, path: Any = None) -> Any:
        """Returns a figure of the smoothed loss against the rate.

        Args:
            path: Where to save the figure, or `None`.
        """
        # Matplotlib is no requirement of the library.
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
