"""The one source of noise: fast, reproducible, different on every replica.

Every layer owns a `SeedGenerator` and turns its seeds into noise with the functions
below. They are stateless, so the same seed gives the same noise in eager code and in
graphs (XLA makes other numbers of the same bits, the same ones every time), and they
name their algorithm: Philox, because under XLA on a CPU the default is slower.
"""

from typing import Any

import keras
import tensorflow as tf

# 2**32 divided by the golden ratio, as a signed number: multiples of it are far
# apart, so replicas end up with unrelated Philox keys.
_REPLICA_STRIDE = -1640531527

Tensor = Any


class SeedGenerator(keras.random.SeedGenerator):
    """A `keras.random.SeedGenerator` whose seeds differ between replicas.

    Under `tf.distribute`, Keras's own generator hands the same seed to every
    replica, so that all of them draw the same noise. This one folds the replica's
    id into the seed; outside a strategy both give the same seeds.

    Args:
        seed: Python integer, or `None` for a seed from Python's `random`, which
            `keras.utils.set_random_seed` makes reproducible.
        name: Optional name.

    Example:

    >>> import tfvn
    >>> noise = tfvn.random.normal((2, 3), tfvn.random.SeedGenerator(1).next())
    >>> again = tfvn.random.normal((2, 3), tfvn.random.SeedGenerator(1).next())
    >>> bool((noise.numpy() == again.numpy()).all())
    True
    """

    def next(self, ordered: bool = True) -> Tensor:
        """Returns the next seed, a tensor of two integers."""
        seed = super().next(ordered=ordered)
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1:
            # The id is a tensor when one program serves all replicas (TPU), so the
            # fold has to be part of the graph.
            replica_id = tf.cast(replica.replica_id_in_sync_group, seed.dtype)
            seed += tf.stack([replica_id * _REPLICA_STRIDE, 0])
        # The samplers of TFP take 32 bits only.
        return tf.cast(seed, tf.int32)


def normal(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns standard normal noise."""
    return _draw(tf.random.stateless_normal, shape, seed, dtype)


def uniform(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns noise that is uniform on [-1, 1)."""
    return _draw(tf.random.stateless_uniform, shape, seed, dtype, minval=-1, maxval=1)


def rademacher(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns random signs, -1 or 1 with equal probability."""
    bits = tf.random.stateless_uniform(
        shape, seed, minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    # The sign bit of each integer, as -1 or 0, doubled and raised by one.
    return tf.cast(2 * tf.bitwise.right_shift(bits, 31) + 1, dtype)


def _draw(function: Any, shape: Any, seed: Tensor, dtype: Any, **kwargs: Any) -> Tensor:
    # Half precision is a matter of the result: its few bits would make a poor
    # generator, with atoms and a short tail.
    dtype = tf.as_dtype(dtype)
    drawn = tf.float64 if dtype == tf.float64 else tf.float32
    noise = function(shape, seed, dtype=drawn, alg="philox", **kwargs)
    return tf.cast(noise, dtype)
