"""The k-tied Normal distribution."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember
from tfvn.distributions.sums_over_weights import sum_of_logs_of_products
from tfvn.kernel import KernelSpec


@register
class KTiedNormal(tfd.Normal):
    """Independent Normals whose scales form a matrix of low rank.

    With `loc` as a matrix of `m` rows and `n` columns, the standard deviations are
    `left @ transpose(right)`. Every KL that is registered for a `tfd.Normal` also works
    for this class.

    Args:
        loc: Means, of any shape.
        left: Positive factors of the rows, `(m, rank)`.
        right: Positive factors of the columns, `(n, rank)`.
        output_axes: The axes of `loc` that are its columns.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> d = tfvn.distributions.KTiedNormal(
    ...     [[0.0, 1.0, 2.0]], left=[[2.0]], right=[[1.0], [2.0], [3.0]]
    ... )
    >>> d.stddev().numpy().tolist()
    [[2.0, 4.0, 6.0]]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), section 3
    """

    def __init__(
        self,
        loc: Any,
        left: Any,
        right: Any,
        output_axes: tuple[int, ...] = (-1,),
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "KTiedNormal",
    ):
        parameters = dict(locals())
        loc = tf.convert_to_tensor(loc)
        axes = tuple(axis % loc.shape.rank for axis in output_axes)
        spec = KernelSpec(tuple(loc.shape), axes)
        self.left = tf.convert_to_tensor(left, dtype=loc.dtype)
        self.right = tf.convert_to_tensor(right, dtype=loc.dtype)
        if (self.left.shape[0], self.right.shape[0]) != (spec.rows, spec.columns):
            raise ValueError(
                f"Arguments `left` and `right` must have {spec.rows} and "
                f"{spec.columns} rows, as many as `loc` has rows and columns. "
                f"Received: left.shape={tuple(self.left.shape)} and "
                f"right.shape={tuple(self.right.shape)}"
            )
        scale = spec.from_matrix(tf.matmul(self.left, self.right, transpose_b=True))
        super().__init__(loc, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"loc": tfd.Normal.parameter_properties(dtype)["loc"]}

    def sum_of_variances(self) -> tf.Tensor:
        """Returns the sum of all variances, in float64, without forming them.

        It is the sum of the products of the factors' Gram matrices.
        """
        factors = [tf.cast(factor, tf.float64) for factor in (self.left, self.right)]
        left, right = (tf.matmul(f, f, transpose_a=True) for f in factors)
        return tf.reduce_sum(left * right)

    def sum_of_log_scales(self) -> tf.Tensor:
        """Returns the sum of the logarithms of all scales, in float64."""
        return sum_of_logs_of_products(self.left, self.right)

    def __getitem__(self, slices: Any) -> tfd.Normal:
        # A slice of the scales is in general not a product of two factors.
        return tfd.Normal(self.loc, self.scale)[slices]
