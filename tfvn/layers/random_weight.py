"""A weight of a layer with what is learned about it and what that is measured against."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import kl, posteriors, priors, support
from tfvn.distributions import trainable
from tfvn.kernel import KernelSpec
from tfvn.posteriors import Posterior

Tensor = Any

KL_METHODS = ("auto", "analytic", "monte_carlo")


class RandomWeight:
    """A kernel or a bias: its posterior, its prior, and the KL between them.

    Args:
        name: What the weight is called, the stem of its variables' names.
        posterior: An alias or an instance, of which a copy is kept, so that one
            posterior can be given to many layers.
        prior: An alias, a `tfd.Distribution` or `None`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
    """

    def __init__(self, name: str, posterior: Any, prior: Any, kl_method: str):
        self.name = name
        self.posterior: Posterior = posteriors.get(posterior).clone()
        self.prior = priors.resolve(prior, self.posterior)
        self.is_estimated = self._choose(kl_method) == "monte_carlo"

    @property
    def prior_variables(self) -> list[keras.Variable]:
        """The variables of the prior, which are learned through the KL."""
        return trainable.variables(self.prior_distribution)

    @property
    def has_constant_kl(self) -> bool:
        """Whether no gradient sees the KL, so that it can be left out."""
        return priors.is_constant(self.prior, self.posterior)

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        prior_spec: KernelSpec | None = None,
        **options: Any,
    ) -> None:
        """Creates the variables.

        Args:
            add_weight: The layer's `add_weight`.
            spec: Geometry of the weight.
            prior_spec: Geometry that an alias of a prior is made for, if another.
            **options: `initializer`, `regularizer` and `constraint` of the variable
                that stands for the weight.
        """
        if options["initializer"] is None:
            options["initializer"] = self.posterior.default_initializer(spec)

        def add_exact_weight(**kwargs: Any) -> keras.Variable:
            # Posteriors compute in the precision of their variables: squares and
            # logarithms of small scales do not survive a cast to half precision.
            return add_weight(autocast=False, **kwargs)

        self.posterior.build(add_exact_weight, spec, name=self.name, **options)
        for group, variables in self.posterior.variable_groups.items():
            for variable in variables:
                # For optimizers, which are given variables and no layers.
                variable.variable_group = group
        if isinstance(self.prior, str) and prior_spec is not None:
            spec = prior_spec
        self.prior_distribution: Any = priors.make(self.prior, spec)

    def kl_divergence(
        self,
        reading: Posterior,
        drawn: Tensor | None,
        next_seed: Callable[[], Tensor],
        only_path: bool = False,
    ) -> Tensor:
        """Returns the KL in nats, summed over the weight, in float32.

        Args:
            reading: The posterior as it is read in this call.
            drawn: The weight that the forward pass drew, if it drew one.
            next_seed: Gives the seed of a sample, where one is needed.
            only_path: Whether an estimate leaves out the gradient of log q with respect
                to the posterior's own parameters. That score term is zero on average and
                only adds noise: [Roeder et al., 2017](https://arxiv.org/abs/1703.09194),
                equation 7.
        """
        if self.has_constant_kl:
            return tf.zeros(())
        prior = trainable.current(self.prior_distribution)
        # In the prior's precision, float32 unless told: the layer's may be half.
        q = _cast(reading.distribution(), prior.dtype)
        if self.is_estimated:
            drawn = reading.sample(next_seed()) if drawn is None else drawn
            sample = tf.cast(drawn, prior.dtype)
            q = _map_parameters(tf.stop_gradient, q) if only_path else q
            divergence = tf.reduce_sum(kl.monte_carlo(q, prior, sample))
        else:
            divergence = kl.total(q, prior)
        return tf.cast(divergence, tf.float32)

    def _choose(self, kl_method: str) -> str:
        if kl_method not in KL_METHODS:
            raise ValueError(
                f"Argument `kl_method` must be one of {list(KL_METHODS)}. "
                f"Received: kl_method={kl_method!r}"
            )
        row, law = priors.row(self.prior), self.posterior.law
        has_closed_form = (
            support.lookup(support.PRIORS, row, law) != support.MONTE_CARLO
        )
        if kl_method == "analytic" and not has_closed_form:
            raise ValueError(
                f"The KL from a {law} posterior to this prior has no closed form; "
                "expected `kl_method='monte_carlo'` or `'auto'`. "
                f"Received: kl_method='analytic' and prior={self.prior}"
            )
        if kl_method == "monte_carlo" and row == "ard":
            raise ValueError(
                "The ARD prior has no density to compare samples with; expected "
                "`kl_method='analytic'` or `'auto'`. Received: kl_method='monte_carlo'"
            )
        if kl_method == "auto":
            return "analytic" if has_closed_form else "monte_carlo"
        return kl_method


def _cast(distribution: tfd.Distribution, dtype: tf.DType) -> tfd.Distribution:
    if distribution.dtype == dtype:
        return distribution
    return _map_parameters(lambda tensor: tf.cast(tensor, dtype), distribution)


def _map_parameters(
    function: Callable[[Tensor], Tensor], distribution: tfd.Distribution
) -> tfd.Distribution:
    parameters = distribution.parameters.items()
    tensors = {key: function(value) for key, value in parameters if tf.is_tensor(value)}
    return distribution.copy(**tensors)
