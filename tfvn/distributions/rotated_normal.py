"""Normal weights that are independent after a rotation."""

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.kernel import KernelSpec

Tensor = Any


class RotatedNormal(tfd.Distribution):
    """Correlated Normal weights, given by the eigenvectors of their covariance.

    With independent standard Normal noise `z`, the weights as a matrix are

        loc + left @ (scale * z) @ transpose(right),

    where `left` and `right` are orthogonal. The covariance of the weights has the
    eigenvectors `left (x) right`, a Kronecker product, and the eigenvalues `scale^2`. It
    covers a matrix-normal distribution with other eigenvalues too, and with a `left` that
    rotates all weights at once, and a `right` of size 1, any covariance.

    All weights are one event: `log_prob` returns one number for a kernel.

    Args:
        loc: Means of the weights, of any shape.
        scale: Standard deviations along the eigenvectors, of shape `(a, b)`. As many as
            there are weights.
        left: Orthogonal matrix of shape `(a, a)`.
        right: Orthogonal matrix of shape `(b, b)`.
        output_axes: The axes of `loc` that are its columns as a matrix.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> swap = [[0.0, 1.0], [1.0, 0.0]]
    >>> d = tfvn.distributions.RotatedNormal(
    ...     [[0.0], [5.0]], scale=[[1.0], [2.0]], left=swap, right=[[1.0]]
    ... )
    >>> d.stddev().numpy().tolist()
    [[2.0], [1.0]]

    Reference:

    - [Ritter et al., 2018](https://openreview.net/forum?id=Skdvd2xAZ), section 3, for
      matrix-normal distributions
    """

    def __init__(
        self,
        loc: Any,
        scale: Any,
        left: Any,
        right: Any,
        output_axes: tuple[int, ...] = (-1,),
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RotatedNormal",
    ):
        parameters = dict(locals())
        self.loc = tf.convert_to_tensor(loc)
        self.scale, self.left, self.right = (
            tf.convert_to_tensor(part, self.loc.dtype) for part in (scale, left, right)
        )
        axes = tuple(axis % self.loc.shape.rank for axis in output_axes)
        self._spec = KernelSpec(tuple(self.loc.shape), axes)
        super().__init__(
            dtype=self.loc.dtype,
            reparameterization_type=tfd.FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    def from_noise(self, noise: Tensor) -> Tensor:
        """Returns the weights for standard Normal noise of the shape of `scale`."""
        rotated = tf.matmul(self.left, self.scale * noise)
        rotated = tf.matmul(rotated, self.right, transpose_b=True)
        return self.loc + self._to_kernel(rotated)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    def _batch_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])

    def _batch_shape_tensor(self, **parameters: Any) -> Tensor:
        return tf.constant([], tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return self.loc.shape

    def _event_shape_tensor(self) -> Tensor:
        return tf.shape(self.loc)

    def _mean(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        left, right = tf.square(self.left), tf.square(self.right)
        sums = tf.matmul(left, tf.square(self.scale))
        return self._to_kernel(tf.matmul(sums, right, transpose_b=True))

    def _stddev(self) -> Tensor:
        return tf.sqrt(self._variance())

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        seed = tfp.random.sanitize_seed(seed)
        shape = tf.concat([[n], tf.shape(self.scale)], axis=0)
        noise = random.normal(shape, seed, self.dtype)
        return tf.map_fn(self.from_noise, noise)

    def _log_prob(self, value: Tensor) -> Tensor:
        axes = self._spec.input_axes + self._spec.output_axes
        outer = value.shape.rank - len(axes)
        order = [*range(outer), *(outer + axis for axis in axes)]
        matrix = tf.transpose(value - self.loc, order)
        shape = tf.concat([tf.shape(value)[:outer], tf.shape(self.scale)], axis=0)
        centered = tf.reshape(matrix, shape)
        along = tf.matmul(self.left, tf.matmul(centered, self.right), transpose_a=True)
        log_probs = tfd.Normal(tf.zeros((), self.dtype), self.scale).log_prob(along)
        return tf.reduce_sum(log_probs, axis=[-2, -1])

    def _to_kernel(self, matrix: Tensor) -> Tensor:
        spec = self._spec
        return spec.from_matrix(tf.reshape(matrix, [spec.rows, spec.columns]))
