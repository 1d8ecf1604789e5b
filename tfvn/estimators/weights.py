"""Estimators with one kernel for the whole batch: a sample, or the mean."""

from typing import Any

from tfvn.estimators.base import Estimate, Estimator, Held, Term, register
from tfvn.estimators.sequence_weights import HeldWeights
from tfvn.estimators.terms import mean_of, sum_of
from tfvn.posteriors.base import Posterior
from tfvn.random import SeedGenerator

Tensor = Any


@register("weights")
class WeightSampling(Estimator):
    """Samples one kernel for the whole batch.

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 3
    """

    draws_weights = True

    def __call__(self, terms: list[Term], seed_generator: SeedGenerator) -> Estimate:
        weights = tuple(term.posterior.sample(seed_generator.next()) for term in terms)
        outputs = sum_of(
            term.linear_op(term.inputs, kernel)
            for term, kernel in zip(terms, weights, strict=True)
        )
        return Estimate(outputs, weights)

    def hold(
        self,
        posteriors: dict[str, Posterior],
        batch_size: Tensor,
        dtype: Any,
        seed_generator: SeedGenerator,
    ) -> Held:
        drawn = {
            name: posterior.sample(seed_generator.next())
            for name, posterior in posteriors.items()
        }
        return HeldWeights(drawn, dtype)


@register("mean")
class MeanWeights(Estimator):
    """Uses the means of the weights, without noise: the weight-scaling rule.

    For a variance layer, whose mean weights are zero, this gives a random guess.

    Reference:

    - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
    """

    noise_per_example = True
    draws_noise = False

    def __call__(self, terms: list[Term], seed_generator: SeedGenerator) -> Estimate:
        return Estimate(sum_of(mean_of(term) for term in terms), (None,) * len(terms))

    def hold(
        self,
        posteriors: dict[str, Posterior],
        batch_size: Tensor,
        dtype: Any,
        seed_generator: SeedGenerator,
    ) -> Held:
        means = {name: posterior.mean() for name, posterior in posteriors.items()}
        return HeldWeights(means, dtype, are_drawn=False)
