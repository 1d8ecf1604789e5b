"""Likelihoods of targets, given the outputs of a dense last layer before its activation.

Each knows the log-likelihood, and its Hessian with respect to these outputs. For
crossentropies they are logits.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from tfvn.analysis.curvature import OutputHessians
from tfvn.likelihoods import LARGEST_LOG_SCALE

Array = np.ndarray


class HeadLikelihood:
    """A likelihood of targets."""

    @property
    def noise_is_unknown(self) -> bool:
        """Whether the standard deviation of the noise is to be found."""
        return False

    @property
    def known_scale(self) -> float | None:
        """The standard deviation of the noise, if it is one known number."""
        return None

    def targets_per_output(self, outputs: int) -> int:
        """Returns the size of the last axis of the targets."""
        return outputs

    def checked(self, y: Array, shape: tuple[int, ...]) -> Array:
        """Returns targets, one row for each output vector, or raises an error.

        Args:
            y: Targets.
            shape: The shape of the outputs.
        """
        wanted = (*shape[:-1], self.targets_per_output(shape[-1]))
        fits = y.shape == wanted or (wanted[-1] == 1 and y.shape == wanted[:-1])
        if not fits:
            raise _wrong_shape(y, wanted)
        return _numbers(y).reshape(-1, wanted[-1])

    def hessians(self, outputs: Array) -> OutputHessians:
        """Returns the Hessians of the negative log-likelihood."""
        raise NotImplementedError

    def log_likelihood(self, outputs: Array, y: Array) -> Array:
        """Returns the log-likelihood of each row of outputs."""
        raise NotImplementedError


class Categorical(HeadLikelihood):
    """Classes; the outputs are logits."""

    def checked(self, y: Array, shape: tuple[int, ...]) -> Array:
        classes = shape[-1]
        if classes == 1:
            raise ValueError(
                "A softmax over one class is always 1, and tells nothing; for a binary "
                "answer, use a sigmoid. Received: a last layer with 1 unit"
            )
        if y.shape == shape:
            return _numbers(y).reshape(-1, classes)
        if y.shape not in (shape[:-1], (*shape[:-1], 1)):
            raise _wrong_shape(y, shape, f" or, for labels, {shape[:-1]}")
        labels = _numbers(y).ravel()
        if not np.all((labels == labels.astype(int)) & (labels >= 0)) or np.any(
            labels >= classes
        ):
            raise ValueError(
                f"Argument `y` must have labels from 0 to {classes - 1}. "
                f"Received: labels from {labels.min():g} to {labels.max():g}"
            )
        return np.eye(classes)[labels.astype(int)]

    def hessians(self, outputs: Array) -> OutputHessians:
        probabilities = np.exp(_log_softmax(outputs))
        return OutputHessians(probabilities, probabilities)

    def log_likelihood(self, outputs: Array, y: Array) -> Array:
        return np.sum(y * _log_softmax(outputs), axis=-1)


class Bernoulli(HeadLikelihood):
    """Independent answers of yes or no; the outputs are logits."""

    def checked(self, y: Array, shape: tuple[int, ...]) -> Array:
        y = super().checked(y, shape)
        if np.any((y < 0) | (y > 1)):
            raise ValueError(
                "Argument `y` must have numbers from 0 to 1 for binary answers. "
                f"Received: numbers from {y.min():g} to {y.max():g}"
            )
        return y

    def hessians(self, outputs: Array) -> OutputHessians:
        # p (1 - p), without the rounding of 1 - p.
        return OutputHessians(np.exp(-_softplus(outputs) - _softplus(-outputs)))

    def log_likelihood(self, outputs: Array, y: Array) -> Array:
        return np.sum(y * outputs - _softplus(outputs), axis=-1)


@dataclasses.dataclass(frozen=True)
class Gaussian(HeadLikelihood):
    """Normal targets around the outputs.

    Args:
        scale: Standard deviation of the noise, a number or one for each output. `None` if it
            is to be found; it is then 1 in `hessians`.
    """

    scale: Any = None

    @property
    def noise_is_unknown(self) -> bool:
        return self.scale is None

    @property
    def known_scale(self) -> float | None:
        is_number = self.scale is not None and np.ndim(self.scale) == 0
        return float(self.scale) if is_number else None

    def hessians(self, outputs: Array) -> OutputHessians:
        scale = 1.0 if self.scale is None else self.scale
        return OutputHessians(np.broadcast_to(1.0 / np.square(scale), outputs.shape))

    def log_likelihood(self, outputs: Array, y: Array) -> Array:
        return np.sum(_log_normal(y - outputs, np.log(self.scale)), axis=-1)


class GaussianWithScale(HeadLikelihood):
    """Normal targets; the outputs are means, and logarithms of standard deviations."""

    def targets_per_output(self, outputs: int) -> int:
        if outputs % 2:
            raise ValueError(
                "The last layer must have two outputs for each target, the mean and the "
                "logarithm of the standard deviation. "
                f"Received: a last layer with {outputs} units"
            )
        return outputs // 2

    def hessians(self, outputs: Array) -> OutputHessians:
        # The expected Hessian; that of the data need not be positive.
        _, log_scale = self._split(outputs)
        curvatures = [np.exp(-2.0 * log_scale), np.full_like(log_scale, 2.0)]
        return OutputHessians(np.concatenate(curvatures, axis=-1))

    def log_likelihood(self, outputs: Array, y: Array) -> Array:
        mean, log_scale = self._split(outputs)
        return np.sum(_log_normal(y - mean, log_scale), axis=-1)

    def _split(self, outputs: Array) -> tuple[Array, Array]:
        mean, log_scale = np.split(outputs, 2, axis=-1)
        return mean, np.clip(log_scale, -LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)


def _numbers(y: Array) -> Array:
    try:
        numbers = y.astype("float64")
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"Argument `y` must have finite numbers. Received: y of type {y.dtype} with "
            "values that are none"
        )
    return numbers


def _wrong_shape(y: Array, shape: tuple[int, ...], more: str = "") -> ValueError:
    return ValueError(
        f"Argument `y` must have a target for each output, of shape {shape}{more} for "
        f"these rows. Received: y of shape {y.shape}"
    )


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _log_softmax(x: Array) -> Array:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def _log_normal(residuals: Array, log_scale: Any) -> Array:
    constant = 0.5 * math.log(2.0 * math.pi)
    return -0.5 * np.square(residuals * np.exp(-log_scale)) - log_scale - constant
