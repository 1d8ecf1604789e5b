"""The k-tied Normal posterior."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import distributions, random
from tfvn.distributions.scalar import SMALLEST_SCALE
from tfvn.kernel import LinearOp
from tfvn.posteriors.base import NormalPosterior, once_per_reading, register
from tfvn.utils.validation import check_count

Tensor = Any

# The initial standard deviations, and the spread of their logarithms (Swiatkowski et al.).
_INITIAL_SCALE = 0.01
_INITIAL_SPREAD = 0.1


@register("k_tied")
class KTied(NormalPosterior):
    """Normal weights whose standard deviations form a matrix of low rank.

    With the kernel as a matrix of `m` rows and `n` columns, the scales are
    `left @ transpose(right)` with positive factors of shapes `(m, rank)` and `(n, rank)`.
    The layer has about as many parameters as a deterministic one, and its gradients are
    less noisy than those of a mean-field layer.

    The local estimator computes the variance of the output without forming that matrix.
    With `s_ij = sum_k u_ik v_jk`,

        sum_i x_i^2 s_ij^2 = sum_{k<=l} c_kl v_jk v_jl (sum_i x_i^2 u_ik u_il),

    where `c` is 1 on the diagonal and 2 off it: two thin products.

    Args:
        rank: Rank of the matrix of scales, from 1 to `min(m, n)`. Defaults to
            `min(2, m, n)`.

    Example:

    >>> import tfvn
    >>> layer = tfvn.layers.Dense(3, posterior=tfvn.posteriors.KTied(rank=1))
    >>> layer.build((None, 5))
    >>> [tuple(v.shape) for v in layer.variable_groups["scale"]]
    [(5, 1), (3, 1)]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), sections 3 and 4
    """

    def __init__(self, rank: Any = None):
        super().__init__()
        self.rank = check_count("rank", rank, or_none=True)

    def add_scale_variables(
        self, add_weight: Callable[..., keras.Variable], name: str
    ) -> list[keras.Variable]:
        spec = self.spec
        largest = min(spec.rows, spec.columns)
        rank = min(2, largest) if self.rank is None else self.rank
        if rank > largest:
            raise ValueError(
                f"Argument `rank` must be at most {largest} for a kernel of "
                f"{spec.rows} rows and {spec.columns} columns. Received: rank={rank}"
            )
        # Each of the `rank` terms of a scale starts at the initial scale divided by `rank`.
        start = 0.5 * (np.log(_INITIAL_SCALE) - np.log(rank))
        self.log_factors = [
            add_weight(
                name=f"{name}_log_{side}_scale",
                shape=(size, rank),
                initializer=keras.initializers.RandomNormal(start, _INITIAL_SPREAD),
            )
            for side, size in (("left", spec.rows), ("right", spec.columns))
        ]
        # The pairs (k, l) of the sum in the docstring; pairs with k != l count twice.
        self._pairs = np.triu_indices(rank)
        self._counts = np.where(self._pairs[0] == self._pairs[1], 1.0, 2.0)
        return self.log_factors

    @once_per_reading
    def factors(self) -> tuple[Tensor, Tensor]:
        """Returns the factors of the scales, `(rows, rank)` and `(columns, rank)`."""
        # Limiting the factors costs less than limiting each of their products.
        smallest = SMALLEST_SCALE**0.5
        left, right = (
            tf.maximum(tf.exp(factor.value), smallest) for factor in self.log_factors
        )
        return left, right

    @once_per_reading
    def scale(self) -> Tensor:
        """Returns the standard deviation of each weight."""
        left, right = self.factors()
        return self.spec.from_matrix(tf.matmul(left, right, transpose_b=True))

    def variance(self) -> Tensor:
        return tf.square(self.scale())

    def push_variance(self, linear_op: LinearOp, squared_inputs: Tensor) -> Tensor:
        first, second = self._pairs
        left, right = (
            tf.gather(factor, first, axis=1) * tf.gather(factor, second, axis=1)
            for factor in self.factors()
        )
        right = tf.transpose(right * tf.cast(self._counts, right.dtype))
        return linear_op.factored(squared_inputs, left, right)

    def sample(self, seed: Tensor) -> Tensor:
        scale = self.scale()
        return self.mean() + scale * random.normal(scale.shape, seed, scale.dtype)

    def distribution(self) -> tfp.distributions.Distribution:
        left, right = self.factors()
        return distributions.KTiedNormal(
            self.mean(),
            left,
            right,
            output_axes=self.spec.output_axes,
        )

    def get_config(self) -> dict[str, Any]:
        return {"rank": self.rank}
