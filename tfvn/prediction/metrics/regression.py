"""Metrics of predictive distributions of numbers."""

from typing import Any, ClassVar

import keras
import numpy as np

from tfvn.prediction.distribution import PredictiveDistribution, check_level, fitted
from tfvn.prediction.metrics.crps import crps_of_draws, crps_of_mixture
from tfvn.prediction.metrics.targets import refuse_missing, weights_of_targets
from tfvn.utils.validation import check_count


class _PredictionMetric(keras.metrics.Metric):
    """The weighted mean over targets of values that a subclass computes for each of them.

    A subclass implements `values_of(y_true, y_pred)`. It returns an array whose first axis
    is `num_means` long, one mean for each, and whose other axes are those of the targets.
    """

    num_means = 1
    takes_draws: ClassVar[bool] = True
    reads_targets: ClassVar[bool] = True

    def __init__(self, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        # In float64, because float32 stops counting at 16 million.
        self.sums, self.weight = (
            self.add_variable(shape, initializer="zeros", dtype="float64", name=part)
            for part, shape in (("sums", (self.num_means,)), ("weight", ()))
        )

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        """Returns the values of each target.

        Args:
            y_true: Targets, in the shape of the prediction's mean.
            y_pred: A `PredictiveDistribution`, or an array of draws of the target of
                shape `(rows, draws, ...)`.
        """
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: Targets; a last axis of size 1 may be left out.
            y_pred: A `tfvn.PredictiveDistribution` from `tfvn.ensemble_predict`, or a NumPy
                array of draws of the target, the draws on axis 1.
            sample_weight: A number for each row, or for each element of the first axes
                of the targets. Targets with a weight of 0 are ignored.
        """
        y_true, y_pred = self.checked(y_true, y_pred)
        weight = weights_of_targets(sample_weight, y_true)
        counted = weight > 0.0
        if not counted.any():
            return
        if self.reads_targets:
            refuse_missing(y_true, counted)
            # Replaces ignored targets, which may be NaN, by one that counts.
            y_true = np.where(counted, y_true, y_true[counted][0])
        values = np.asarray(self.values_of(y_true, y_pred), "float64")
        values = np.where(counted, values, 0.0) * weight
        # Every row has the same weight, however many targets it has.
        targets = weight[0].size
        sums = values.reshape(self.num_means, -1).sum(axis=-1)
        self.sums.assign_add(sums / targets)
        self.weight.assign_add(weight.sum() / targets)

    def checked(self, y_true: Any, y_pred: Any) -> tuple[np.ndarray, Any]:
        """Returns targets in the shape of the prediction, and checks the prediction."""
        if isinstance(y_pred, PredictiveDistribution):
            return y_pred.align(y_true), y_pred
        if self.takes_draws and isinstance(y_pred, np.ndarray) and y_pred.ndim > 1:
            shape = (len(y_pred), *y_pred.shape[2:])
            y = fitted(y_true, shape)
            if y is None:
                raise ValueError(
                    f"Argument `y_true` must have the shape {shape}, that of `y_pred` "
                    "without the draws, which are on axis 1; a last axis of size 1 may be "
                    f"left out. Received: y_true of shape {np.shape(y_true)} and y_pred of "
                    f"shape {y_pred.shape}"
                )
            if y_pred.dtype.kind not in "fiub":
                raise ValueError(
                    "Argument `y_pred` must be numbers. Received: y_pred of type "
                    f"{y_pred.dtype}"
                )
            return y, y_pred.astype("float64")
        raise self.refusal(y_true, y_pred)

    def refusal(self, y_true: Any, y_pred: Any) -> ValueError:
        """Returns the error for an invalid prediction."""
        draws = (
            ", or a NumPy array of draws of the target with the draws on axis 1"
            if self.takes_draws
            else ""
        )
        return ValueError(
            f"`{type(self).__name__}` needs the `tfvn.PredictiveDistribution` that "
            f"`tfvn.ensemble_predict` returns for the rows of `y_true`{draws}; it does "
            "not work in `compile`, where it would get the outputs for a single draw. "
            f"Received: y_true of shape {getattr(y_true, 'shape', None)}, y_pred of "
            f"type {type(y_pred).__name__} and shape {getattr(y_pred, 'shape', None)}"
        )

    def means(self) -> np.ndarray:
        """Returns the mean over all targets, one number for each value of `values_of`."""
        sums, weight = (keras.ops.convert_to_numpy(v) for v in (self.sums, self.weight))
        return np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)

    def result(self) -> Any:
        return keras.ops.convert_to_tensor(self.means()[0], self.dtype)


@keras.saving.register_keras_serializable("tfvn")
class PredictiveNLL(_PredictionMetric):
    """The negative log-likelihood of targets under the prediction, in nats.

    The prediction is the mixture over the draws. Each target counts separately.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Targets; a last axis of size 1 may be left out.
        y_pred: A `tfvn.PredictiveDistribution`, from `tfvn.ensemble_predict`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> outputs = np.zeros((1, 5, 2))  # five draws of mean 0 and log scale 0
    >>> answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
    >>> metric = tfvn.metrics.PredictiveNLL()
    >>> metric.update_state([0.0], answer)
    >>> round(float(metric.result()), 4)
    0.9189
    """

    takes_draws = False

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        return -y_pred.log_prob(y_true)


@keras.saving.register_keras_serializable("tfvn")
class CRPS(_PredictionMetric):
    """The continuous ranked probability score, in the unit of the target.

    It measures how far the predicted distribution function `F` is from the step function at
    the target: the integral of `(F(x) - 1[x >= y])**2` over all `x`. Smaller is better. For a
    prediction without any spread it is the absolute error. It is computed in closed form for
    Normal and Laplace draws, as a sum for counts, and for other families by numerical
    integration, to about five digits.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Targets; a last axis of size 1 may be left out.
        y_pred: A `tfvn.PredictiveDistribution`, from `tfvn.ensemble_predict`, or a NumPy
            array of draws of the target, the draws on axis 1.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.CRPS()
    >>> metric.update_state([1.0], np.zeros((1, 20)))  # 20 draws, all of them 0
    >>> float(metric.result())
    1.0

    Reference:

    - Gneiting and Raftery, 2007, Strictly proper scoring rules, section 4.2
    - Grimit et al., 2006, The continuous ranked probability score for circular variables,
      equation 5, for mixtures of Normals
    """

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        if isinstance(y_pred, PredictiveDistribution):
            return crps_of_mixture(y_pred, y_true)
        return crps_of_draws(y_pred, y_true)


class _IntervalMetric(_PredictionMetric):
    """A metric of the equal-tailed interval with a given probability."""

    def __init__(self, level: float = 0.9, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.level = check_level("level", level)

    def checked(self, y_true: Any, y_pred: Any) -> tuple[np.ndarray, Any]:
        if isinstance(y_pred, tuple) and len(y_pred) == 2:
            lower, upper = (np.asarray(bound, "float64") for bound in y_pred)
            y = fitted(y_true, lower.shape)
            if y is not None and lower.shape == upper.shape:
                return y, (lower, upper)
            raise self.refusal(y_true, lower)
        return super().checked(y_true, y_pred)

    def bounds(self, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds of the interval."""
        if isinstance(y_pred, tuple):
            return y_pred
        if isinstance(y_pred, PredictiveDistribution):
            return y_pred.interval(self.level)
        tail = 0.5 * (1.0 - self.level)
        lower, upper = np.quantile(y_pred, [tail, 1.0 - tail], axis=1)
        return lower, upper

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "level": self.level}


@keras.saving.register_keras_serializable("tfvn")
class IntervalCoverage(_IntervalMetric):
    """The share of targets that lie within their predicted interval.

    For a calibrated prediction it is equal to the probability of the interval. It does not
    depend on the width of the interval, so look at `tfvn.metrics.IntervalWidth` too.

    Args:
        level: The probability of the interval. The probabilities below and above the
            interval are equal.
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Targets; a last axis of size 1 may be left out.
        y_pred: A `tfvn.PredictiveDistribution`, from `tfvn.ensemble_predict`; a NumPy
            array of draws of the target, the draws on axis 1; or a tuple of lower and
            upper bounds, such as those that an export returns.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.IntervalCoverage(0.9)
    >>> metric.update_state([0.0, 5.0], (np.array([-1.0, -1.0]), np.array([1.0, 1.0])))
    >>> float(metric.result())
    0.5
    """

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        lower, upper = self.bounds(y_pred)
        return (lower <= y_true) & (y_true <= upper)


@keras.saving.register_keras_serializable("tfvn")
class IntervalWidth(_IntervalMetric):
    """The mean width of predicted intervals, in the unit of the target.

    Of two calibrated predictions, the one with narrower intervals is better.

    Args:
        level: The probability of the interval. The probabilities below and above the
            interval are equal.
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Targets, of which only the shape is used.
        y_pred: As in `tfvn.metrics.IntervalCoverage`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.IntervalWidth(0.9)
    >>> metric.update_state([0.0, 5.0], (np.array([-1.0, 0.0]), np.array([1.0, 1.0])))
    >>> float(metric.result())
    1.5
    """

    reads_targets = False

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        lower, upper = self.bounds(y_pred)
        return upper - lower


@keras.saving.register_keras_serializable("tfvn")
class QuantileCalibrationError(_PredictionMetric):
    """How far the levels of quantiles are from the share of targets below them, on average.

    It is the mean, over levels `q = 1 / (n + 1), ..., n / (n + 1)`, of the distance between
    `q` and the share of targets that are not larger than their predicted `q`-quantile. For a
    calibrated prediction and many targets it is 0; it is at most 0.5. If a count is equal to
    a quantile, the part of the count's probability below `q` counts.

    Args:
        num_levels: The number of levels, `n`.
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Targets; a last axis of size 1 may be left out.
        y_pred: A `tfvn.PredictiveDistribution`, from `tfvn.ensemble_predict`, or a NumPy
            array of draws of the target, the draws on axis 1.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> outputs = np.zeros((2, 5, 2))  # Normals of mean 0 and standard deviation 1
    >>> answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
    >>> metric = tfvn.metrics.QuantileCalibrationError(num_levels=3)
    >>> metric.update_state([9.0, 9.0], answer)  # above all quantiles
    >>> float(metric.result())
    0.5

    Reference:

    - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263), section 3
    - [Czado et al., 2009](https://doi.org/10.1111/j.1541-0420.2009.01191.x), for counts
    """

    def __init__(
        self, num_levels: int = 19, name: str | None = None, dtype: Any = None
    ):
        self.num_means = self.num_levels = check_count("num_levels", num_levels)
        super().__init__(name=name, dtype=dtype)

    @property
    def levels(self) -> np.ndarray:
        """The levels of the quantiles."""
        return np.arange(1, self.num_levels + 1) / (self.num_levels + 1)

    def values_of(self, y_true: np.ndarray, y_pred: Any) -> np.ndarray:
        return below_quantiles(y_true, y_pred, self.levels)

    def result(self) -> Any:
        error = np.abs(self.means() - self.levels).mean()
        is_empty = not float(self.weight)
        return keras.ops.convert_to_tensor(0.0 if is_empty else error, self.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_levels": self.num_levels}


def below_quantiles(y: np.ndarray, y_pred: Any, levels: np.ndarray) -> np.ndarray:
    """Returns, for each level on a first axis, whether a target is below its quantile.

    The value is 0 or 1, or a fraction if a count or a draw is equal to the quantile.

    Args:
        y: Targets in the shape of the prediction.
        y_pred: A `PredictiveDistribution` or draws, the draws on axis 1.
        levels: Probabilities.
    """
    levels = levels.reshape(-1, *[1] * y.ndim)
    if isinstance(y_pred, PredictiveDistribution):
        cdf = y_pred.cdf(y)
        discrete = y_pred.likelihood is not None and y_pred.likelihood.discrete
        below = y_pred.cdf(y - 1.0) if discrete else cdf
    else:
        cdf = np.mean(y_pred <= y[:, None], axis=1)
        below = np.mean(y_pred < y[:, None], axis=1)
    jump = np.where(cdf > below, cdf - below, 1.0)
    share = np.clip((levels - below) / jump, 0.0, 1.0)
    return np.where(cdf > below, share, levels >= cdf)
