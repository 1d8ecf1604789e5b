"""What the library's own distributions of single numbers share."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

# The smallest standard deviation: so small that it adds no noise, and large enough that
# its square, its inverse and its logarithm are finite in float32.
SMALLEST_SCALE = 1e-12


class ScalarDistribution(tfd.Distribution):
    """A `tfd.Distribution` of single numbers.

    Args:
        parameters: The `locals()` of the constructor of the subclass.
        dtype: Type of the numbers.
        reparameterization_type: Whether samples have gradients with respect to the
            parameters.
    """

    def __init__(
        self,
        parameters: dict[str, Any],
        dtype: Any,
        reparameterization_type: Any = tfd.FULLY_REPARAMETERIZED,
    ):
        super().__init__(
            dtype=tf.as_dtype(dtype),
            reparameterization_type=reparameterization_type,
            validate_args=parameters.get("validate_args", False),
            allow_nan_stats=parameters.get("allow_nan_stats", True),
            parameters=parameters,
            name=parameters["name"],
        )

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])
