"""What a report says about the predictions of a model, for each kind of prediction."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tfvn import plots
from tfvn.prediction import metrics
from tfvn.prediction.distribution import PredictiveDistribution, fitted
from tfvn.prediction.result import EnsemblePrediction
from tfvn.reports.figures import Figure

LEVEL = 0.9


class Measure(NamedTuple):
    """One figure of a report.

    Attributes:
        key: Its name in `Report.measures`.
        name: Its name on the page.
        value: The number.
        shown: The number as the page shows it.
        meaning: What it is, in a few words.
    """

    key: str
    name: str
    value: float
    shown: str
    meaning: str


class Score(NamedTuple):
    """A number for each example that is larger the less certain the model is of it."""

    key: str
    name: str
    unit: str
    values: np.ndarray


class Outcome:
    """The predictions for some data, and their targets.

    Args:
        answer: The result of `tfvn.ensemble_predict`.
        y: The targets.
        labels: Names of the classes, or `None` for numbers.
    """

    # What the sections of the page say about the figures of this kind of prediction.
    uncertainty: ClassVar[str]

    def __init__(self, answer: Any, y: Any, labels: Sequence[str] | None = None):
        self.answer = answer
        self.labels = labels
        self.y = self.checked(y)

    def checked(self, y: Any) -> np.ndarray:
        """Returns the targets in the form that the other methods need, or raises."""
        found = fitted(y, self.answer.mean.shape)
        if found is None:
            raise ValueError(
                "Argument `y` must have a target for each prediction, in the shape "
                f"{self.answer.mean.shape}. Received: y of shape {np.shape(y)}"
            )
        return found

    def measures(self) -> list[Measure]:
        """Returns the figures at the top of the page."""
        raise NotImplementedError

    def scores(self, answer: Any) -> list[Score]:
        """Returns how uncertain predictions are, the most important score first."""
        raise NotImplementedError

    def calibration(self) -> list[Figure]:
        """Returns the figures that compare what the model says with what is true."""
        raise NotImplementedError

    def said(self, row: int) -> dict[str, str]:
        """Returns the target, and what the model says about it, for one example."""
        raise NotImplementedError


class Classes(Outcome):
    """Predictions of one of several classes."""

    uncertainty = (
        "The entropy of a prediction is its whole uncertainty. The mutual information is "
        "the part of it on which the draws of the weights disagree, and which more data "
        "would reduce."
    )

    @property
    def probabilities(self) -> np.ndarray:
        """The probabilities of all classes, also if the model gives only the second."""
        mean = self.answer.mean
        return mean if mean.shape[1] > 1 else np.concatenate([1 - mean, mean], axis=1)

    def checked(self, y: Any) -> np.ndarray:
        y, mean = np.asarray(y), self.answer.mean
        num_classes = max(2, mean.shape[1])
        if y.ndim == 2 and y.shape == (len(mean), num_classes):
            y = y.argmax(axis=1)  # one-hot
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        wrong = np.setdiff1d(y, np.arange(num_classes))
        if y.shape != (len(mean),) or len(wrong):
            raise ValueError(
                f"Argument `y` must have an integer from 0 to {num_classes - 1}, or a "
                f"one-hot row, for each of {len(mean)} examples. Received: y of shape "
                f"{y.shape}, with values such as {wrong[:3].tolist() or y[:1].tolist()}"
            )
        if self.labels is not None and len(self.labels) != num_classes:
            raise ValueError(
                f"Argument `labels` must have a name for each of {num_classes} classes. "
                f"Received: labels={self.labels!r}"
            )
        return y.astype("int64")

    def measures(self) -> list[Measure]:
        p, mean = self.probabilities, self.answer.mean
        accuracy = float(np.mean(p.argmax(axis=1) == self.y))
        nll = _value(metrics.EnsembleNLL(), self.y, mean[:, None])
        brier = _value(metrics.BrierScore(), self.y, mean)
        error = _value(metrics.ExpectedCalibrationError(), self.y, mean)
        chance = np.log(p.shape[1])
        return [
            Measure(
                "accuracy", "Accuracy", accuracy, f"{accuracy:.2%}", "right answers"
            ),
            _number(
                "nll", "NLL", nll, f"nats for each example; {chance:.2f} is chance"
            ),
            _number(
                "brier_score", "Brier score", brier, "from 0 to 2, smaller is better"
            ),
            _number("calibration_error", "ECE", error, "expected calibration error"),
        ]

    def scores(self, answer: EnsemblePrediction) -> list[Score]:
        entropy, information = answer.entropy, answer.mutual_information
        return [
            Score("entropy", "Entropy", "nats", _positive(entropy)),
            Score(
                "mutual_information",
                "Mutual information",
                "nats",
                _positive(information),
            ),
        ]

    def calibration(self) -> list[Figure]:
        p, y = self.probabilities, self.y
        confidence = float(p.max(axis=1).mean())
        accuracy = float(np.mean(p.argmax(axis=1) == y))
        entropy = self.scores(self.answer)[0].values
        said = "less" if confidence < accuracy else "more"
        return [
            Figure(
                "Calibration",
                "Reliability diagram: the accuracy in bins of confidence.",
                f"The model is right in {accuracy:.1%} of the examples, and {said} confident "
                f"than that: {confidence:.1%} on average. Points below the diagonal are "
                "predictions that are too confident.",
                lambda ax: plots.reliability_diagram(y, p, ax=ax),
            ),
            Figure(
                "Risk and coverage",
                "The error rate against the share of examples that are answered.",
                "If the model answers only the examples with the smallest entropy: how "
                "many (coverage), and how many of these answers are wrong (risk).",
                lambda ax: plots.risk_coverage(y, p, entropy, ax=ax),
            ),
        ]

    def said(self, row: int) -> dict[str, str]:
        p = self.probabilities[row]
        best = int(p.argmax())
        return {
            "true": self._label(int(self.y[row])),
            "predicted": f"{self._label(best)} ({p[best]:.0%})",
        }

    def _label(self, index: int) -> str:
        return str(index) if self.labels is None else str(self.labels[index])


class Numbers(Outcome):
    """Predictions of numbers, without the noise of the targets."""

    uncertainty = (
        "The standard deviation over the draws is how far they disagree. It leaves out the "
        "noise of the targets, so that it says nothing about how far a target is from its "
        "prediction."
    )

    def measures(self) -> list[Measure]:
        errors = np.asarray(self.answer.mean, "float64") - self.y
        rmse = float(np.sqrt(np.mean(np.square(errors))))
        mae = float(np.mean(np.abs(errors)))
        return [
            _number("rmse", "RMSE", rmse, "root of the mean squared error"),
            _number("mae", "MAE", mae, "mean absolute error"),
        ]

    def scores(self, answer: EnsemblePrediction) -> list[Score]:
        unit = "unit of the target"
        return [Score("std", "Standard deviation", unit, _of_rows(answer.std))]

    def calibration(self) -> list[Figure]:
        return []

    def said(self, row: int) -> dict[str, str]:
        mean, std = np.ravel(self.answer.mean[row]), np.ravel(self.answer.std[row])
        said = ", ".join(f"{m:.4g} ± {s:.2g}" for m, s in zip(mean, std, strict=True))
        return {"true": _listed(self.y[row]), "predicted": said}


class Distributions(Numbers):
    """Predicted distributions of numbers."""

    uncertainty = (
        "The standard deviation of a prediction is its whole uncertainty. The epistemic "
        "part is how far the draws of the weights disagree, which more data would reduce."
    )
    answer: PredictiveDistribution

    def measures(self) -> list[Measure]:
        y, answer = self.y, self.answer
        percent = f"{LEVEL:.0%}"
        nll = _value(metrics.PredictiveNLL(), y, answer)
        crps = _value(metrics.CRPS(), y, answer)
        coverage = _value(metrics.IntervalCoverage(LEVEL), y, answer)
        width = _value(metrics.IntervalWidth(LEVEL), y, answer)
        return [
            _number("nll", "NLL", nll, "nats for each target"),
            _number("crps", "CRPS", crps, "smaller is better; in the target's unit"),
            Measure(
                "coverage",
                "Coverage",
                coverage,
                f"{coverage:.1%}",
                f"targets within their {percent} interval",
            ),
            _number("width", "Width", width, f"of the {percent} interval, on average"),
            super().measures()[0],
        ]

    def scores(self, answer: Any) -> list[Score]:
        unit = "unit of the target"
        epistemic = _of_rows(answer.epistemic_std)
        return [
            *super().scores(answer),
            Score("epistemic_std", "Epistemic standard deviation", unit, epistemic),
        ]

    def calibration(self) -> list[Figure]:
        return [
            Figure(
                "Coverage of intervals",
                "The share of targets within intervals against their probabilities.",
                "Of a calibrated prediction, an interval with a probability of 50 % holds "
                "half of the targets. Below the diagonal, intervals are too narrow.",
                lambda ax: plots.coverage(self.answer, self.y, ax=ax),
            )
        ]


def outcome_of(answer: Any, y: Any, labels: Sequence[str] | None = None) -> Outcome:
    """Returns the outcome of a prediction, or raises if a report can't show it.

    Args:
        answer: The result of `tfvn.ensemble_predict`.
        y: The targets.
        labels: Names of the classes, or `None`.
    """
    if not isinstance(answer, EnsemblePrediction):
        raise ValueError(
            "Argument `model` must have one output for a report; make a model of one of "
            "its outputs, as in `keras.Model(model.inputs, model.outputs[0])`. "
            f"Received: a model with {len(answer)} outputs"
        )
    if isinstance(answer, PredictiveDistribution):
        return Distributions(answer, y)
    if answer.entropy is None:
        return Numbers(answer, y)
    if answer.mean.ndim != 2 or answer.entropy.ndim != 1:
        raise ValueError(
            "Argument `model` must predict one class for each example, or numbers; a report "
            "does not show several answers for each example, such as labels of each step. "
            f"Received: predictions of shape {answer.mean.shape}"
        )
    return Classes(answer, y, labels)


def _value(metric: Any, y: np.ndarray, predictions: Any) -> float:
    metric.update_state(y, predictions)
    return float(metric.result())


def _number(key: str, name: str, value: float, meaning: str) -> Measure:
    return Measure(key, name, value, f"{value:#.4g}", meaning)


def _positive(values: Any) -> np.ndarray:
    """Returns entropies without the rounding below zero."""
    return np.maximum(np.asarray(values, "float64"), 0.0)


def _of_rows(values: Any) -> np.ndarray:
    """Returns the mean over the targets of each example."""
    values = np.asarray(values, "float64")
    return values.reshape(len(values), -1).mean(axis=1)


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in np.ravel(values))
