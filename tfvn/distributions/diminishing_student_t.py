"""The Student-t prior with next to no degrees of freedom."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions import trainable
from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register
from tfvn.utils.validation import check_number


@register
class DiminishingStudentT(ScalarDistribution):
    """A Student-t prior as its degrees of freedom go to zero.

    It is a proper prior that behaves like the log-uniform one. Its log density leaves out
    the normaliser: `log p(w) = -0.5 (df + 1) log(df + w^2)`. The normaliser has no
    gradient and would add 37.5 nats per weight at `df` = 1e-16. If you need the KL with
    the normaliser, pass a `tfd.StudentT` as the prior.

    Args:
        df: Degrees of freedom, positive.
        dtype: Floating-point type of the weights.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> prior = tfvn.distributions.DiminishingStudentT()
    >>> round(float(prior.log_prob(2.0)), 4)
    -0.6931

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), equation 10
    """

    def __init__(
        self,
        df: float = 1e-16,
        dtype: Any = tf.float32,
        name: str = "DiminishingStudentT",
    ):
        parameters = dict(locals())
        if trainable.is_variable(df):
            raise ValueError(
                "The degrees of freedom of a `DiminishingStudentT` can't be trained, "
                "because its density lacks the normaliser that depends on them; use a "
                f"`tfd.StudentT`. Received: df={df}"
            )
        self.df = check_number("df", df, above=0)
        super().__init__(parameters, dtype, tfd.NOT_REPARAMETERIZED)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    def _log_prob(self, value: Any) -> Any:
        return -0.5 * (self.df + 1.0) * tf.math.log(self.df + tf.square(value))
