"""A posterior with its means set to zero, for predictions without means."""

from typing import Any

from tfvn.kernel import LinearOp
from tfvn.posteriors.base import Posterior

Tensor = Any


class WithoutMean:
    """A view of a posterior with means of zero and the same variances.

    Args:
        reading: The result of `Posterior.read`.
    """

    zero_mean = True

    def __init__(self, reading: Posterior):
        self._reading = reading
        self.spec, self.law = reading.spec, reading.law

    def mean(self) -> Tensor:
        return 0.0 * self._reading.mean()

    def variance(self) -> Tensor:
        return self._reading.variance()

    def push_variance(self, linear_op: LinearOp, squared_inputs: Tensor) -> Tensor:
        return self._reading.push_variance(linear_op, squared_inputs)

    def sample(self, seed: Tensor) -> Tensor:
        return self._reading.sample(seed) - self._reading.mean()
