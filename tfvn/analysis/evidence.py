"""The marginal likelihood of a Laplace approximation, and the precisions that maximize it."""

import dataclasses
import math

import numpy as np

Array = np.ndarray

_MAX_STEPS = 500
# No step changes the logarithm of a precision by more than this.
_LARGEST_STEP = 3.0


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What the marginal likelihood of a fitted layer depends on.

    With the prior `N(0, 1 / prior_precision)` of each weight, and the Gauss-Newton matrix
    times `noise_precision` as the curvature of the data, its logarithm is

        log_likelihood + (size log prior_precision - prior_precision squared_norm
            - sum(log(noise_precision eigenvalues + prior_precision))) / 2,

    which is a concave function of the logarithms of both precisions.

    Args:
        eigenvalues: Those of the Gauss-Newton matrix.
        squared_norm: Sum of the squares of the weights.
        log_likelihood: That of the data, if the noise is known; else 0.
        squares: For Normal targets with unknown noise, the sum of the squared residuals;
            else 0.
        count: Number of these residuals; 0 if the noise is known.

    Reference:

    - [MacKay, 1992](https://doi.org/10.1162/neco.1992.4.3.415)
    - [Immer et al., 2021](https://arxiv.org/abs/2104.04975), equation 6
    """

    eigenvalues: Array
    squared_norm: float
    log_likelihood: float
    squares: float = 0.0
    count: float = 0.0

    def value(self, prior_precision: float, noise_precision: float = 1.0) -> float:
        """Returns the logarithm of the marginal likelihood, in nats."""
        noise = math.log(noise_precision / (2.0 * math.pi))
        data = self.count * noise - noise_precision * self.squares
        posterior = np.log(noise_precision * self.eigenvalues + prior_precision)
        volume = self.eigenvalues.size * math.log(prior_precision) - posterior.sum()
        prior = prior_precision * self.squared_norm
        return float(self.log_likelihood + 0.5 * (data + volume - prior))

    def maximize(
        self, prior_precision: float | None, noise_precision: float | None
    ) -> tuple[float, float]:
        """Returns both precisions; those that are `None` maximize the marginal likelihood.

        Newton's method in their logarithms, with a shorter step where the value would
        fall. The maximum is unique.
        """
        free = np.array([prior_precision is None, noise_precision is None])
        known = [1.0 if p is None else p for p in (prior_precision, noise_precision)]
        logs = np.log(known)
        if not free.any():
            return known[0], known[1]
        value = self.value(*np.exp(logs))
        for _ in range(_MAX_STEPS):
            gradient, hessian = self._derivatives(*np.exp(logs))
            step = np.zeros(2)
            step[free] = np.linalg.solve(hessian[np.ix_(free, free)], -gradient[free])
            step *= min(1.0, _LARGEST_STEP / np.abs(step).max(initial=1e-300))
            if np.abs(step).max() < 1e-10:
                break
            after = self.value(*np.exp(logs + step))
            while not after >= value and np.abs(step).max() > 1e-12:
                step, after = step / 2, self.value(*np.exp(logs + step / 2))
            logs, value = logs + step, after
        prior, noise = np.exp(logs)
        return float(prior), float(noise)

    def _derivatives(self, prior: float, noise: float) -> tuple[Array, Array]:
        """Returns gradient and Hessian with respect to the logarithms of the precisions."""
        data = noise * self.eigenvalues
        share = data / (data + prior)
        # The number of weights that the data determine, and how it changes.
        effective, change = share.sum(), np.sum(share * (1.0 - share))
        squares, norm = noise * self.squares, prior * self.squared_norm
        gradient = np.array([effective - norm, self.count - squares - effective])
        hessian = np.array([[-change - norm, change], [change, -change - squares]])
        return 0.5 * gradient, 0.5 * hessian
