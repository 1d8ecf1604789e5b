"""The log-uniform prior of variational dropout."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register
from tfvn.utils.validation import check_choice

KL_FORMS = ("exact", "molchanov")


@register
class LogUniform(ScalarDistribution):
    """The improper log-uniform prior, `p(w) = C / |w|`, with `C = 1`.

    Hron et al. showed that this prior does not, in general, give a proper posterior:
    its mass is infinite around zero and in the tails. Training with it therefore
    maximises a penalised likelihood and does not approximate a Bayesian posterior. They
    also showed that a multiplicative posterior reaches the optimum of the KL term only
    as `alpha` goes to infinity, so neither a Bayesian nor a description-length argument
    explains the sparsity that it produces.

    The distribution has a `log_prob`, but cannot be sampled. `KL(q || LogUniform)` leaves
    out a constant, which has no gradient: for a Gaussian `q` the true value is smaller by
    2.0541200 + log C nats per weight.

    Args:
        kl: `"exact"` for the closed form of Hron et al. with its Dawson-integral
            gradient, or `"molchanov"` for the approximation of Molchanov et al.,
            which is cheaper and wrong by at most 0.0094 nats per weight.
        dtype: Floating-point type of the weights.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> prior = tfvn.distributions.LogUniform()
    >>> round(float(prior.log_prob(2.0)), 4)
    -0.6931

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)
    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369)
    - [Hron et al., 2017](https://arxiv.org/abs/1711.02989), proposition 1, remarks
      1 and 2
    """

    def __init__(
        self,
        kl: str = "exact",
        dtype: Any = tf.float32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogUniform",
    ):
        parameters = dict(locals())
        self.kl = check_choice("kl", kl, KL_FORMS)
        super().__init__(parameters, dtype, tfd.NOT_REPARAMETERIZED)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    def _log_prob(self, value: Any) -> Any:
        return -tf.math.log(tf.abs(value))
