"""The one source of noise: fast, reproducible, different on every replica.

Every layer owns a `SeedGenerator` and turns its seeds into noise with the functions
below. They are stateless, so the same seed gives the same noise in eager code and in
graphs, and under XLA other noise, the same every time. They name their algorithm: Philox
and, under XLA, ThreeFry, because there the default is slower by far on a CPU.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import passes
from tfvn.utils import private

# 2**32 divided by the golden ratio, as a signed number: multiples of it are far
# apart, so replicas end up with unrelated Philox keys.
_REPLICA_STRIDE = -1640531527

# TensorFlow's numbers for algorithms. Only XLA has the second, in half the time of the first.
_PHILOX = 1
_THREEFRY = 2

# What an op can be placed on, unless it is compiled by XLA.
_DEVICES = ["CPU", "GPU"]

# Of a float32.
_SIGN_BIT = -(2**31)
_BITS_OF_ONE = 0x3F800000

# In a prediction, how many normal numbers in a row come from cosines, before as many come
# from the sines of the same angles.
_RUN = 64

Tensor = Any


class Stream:
    """Seeds that are a pure function of one seed and of how many were taken before.

    In a pass with a stream, noise depends on nothing else, so that a prediction can be
    repeated, and exported; no seed generator moves on. What asks in the body of a
    `tf.while_loop`, a cell of a recurrent layer say, gets another seed in every step.

    Args:
        seed: Two integers: the seed of noise that the examples of a batch share, such
            as a kernel.
        example_seed: The seed of noise that each example has for itself; `None` is one
            that `seed` determines. Batches with other such seeds and the same `seed`
            share kernels and nothing else.

    Example:

    >>> import tfvn
    >>> from tfvn import passes
    >>> generator = tfvn.random.SeedGenerator(1)
    >>> def draw():
    ...     with passes.changed(stream=tfvn.random.Stream([0, 7])):
    ...         return tfvn.random.normal((3,), generator.next()).numpy()
    >>> bool((draw() == draw()).all())
    True
    """

    def __init__(self, seed: Tensor, example_seed: Tensor | None = None):
        self._seed = seed
        self._example_seed = fold_in(seed, -1) if example_seed is None else example_seed
        self._taken = 0
        self._loops_around = private.loops()

    def next(self, per_example: bool | None = None) -> Tensor:
        """Returns the next seed.

        Args:
            per_example: Whether the noise is that of the examples of a batch, each its
                own, rather than one that they share.
        """
        self._taken += 1
        seed = self._take(
            self._example_seed if per_example else self._seed, self._taken
        )
        for loop in private.loops():
            if loop not in self._loops_around:
                seed = fold_in(seed, private.step_of(loop))
        return seed

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return fold_in(seed, number)


def fold_in(seed: Tensor, number: Tensor) -> Tensor:
    """Returns a new seed, a function of a seed and of a number.

    All of its 64 bits depend on both; `tf.random.experimental.stateless_fold_in` keeps
    32 bits of the seed, too few for as many blocks of rows as a data set has.
    """
    seed = tf.cast(seed, tf.int32) + tf.stack([0, tf.cast(number, tf.int32)])
    return tf.random.stateless_uniform([2], seed, None, None, tf.int32, alg="philox")


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

    def next(self, ordered: bool = True, per_example: bool | None = None) -> Tensor:
        """Returns the next seed, a tensor of two integers.

        Args:
            ordered: As in `keras.random.SeedGenerator`.
            per_example: Whether the noise is that of the examples of a batch, each its
                own, rather than one that they share. It matters in a pass with a
                stream only, where `None` is what is known of the layer.
        """
        now = passes.current()
        if now.stream is not None:
            now.record.asked.add(id(self))
            return now.stream.next(per_example)
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
    """Returns standard normal noise.

    `tf.random.stateless_normal` is slower, by half and under XLA by far more. Under XLA
    uniform numbers are inverted, and values end at 5.3, as they do in every library that
    inverts a float32. Elsewhere Box and Muller's method is faster, whose sines XLA is slow
    at; there values end at 5.8.

    In a pass with a stream, the first numbers are the same however many follow, as they
    are in all other functions here: the noise of a row does not depend on the rows after
    it.
    """
    size = _size(shape)
    is_compiled = _is_compiled()
    if passes.current().stream is not None:
        runs = (size + 2 * _RUN - 1) // (2 * _RUN)
        uniform = _draw(tf.stack([runs, 2, _RUN]), seed, dtype)
        noise = _box_muller(uniform[:, 0], uniform[:, 1], axis=1)
    else:
        uniform = _draw(tf.stack([2, (size + 1) // 2]), seed, dtype)
        if is_compiled is False:
            noise = _box_muller(uniform[0], uniform[1])
        elif is_compiled is True:
            noise = _invert(uniform, seed)
        else:
            transforms = [
                lambda: _box_muller(uniform[0], uniform[1]),
                lambda: _invert(uniform, seed),
            ]
            noise = tf.switch_case(tf.cast(is_compiled, tf.int32), transforms)
    return tf.cast(tf.reshape(tf.reshape(noise, [-1])[:size], shape), dtype)


def _box_muller(first: Tensor, second: Tensor, axis: int = 0) -> Tensor:
    radius = tf.sqrt(-2.0 * tf.math.log(_inside(first)))
    angle = (2.0 * np.pi) * second
    return tf.stack([radius * tf.cos(angle), radius * tf.sin(angle)], axis=axis)


def _invert(uniform: Tensor, seed: Tensor) -> Tensor:
    noise = tf.math.ndtri(_inside(uniform))
    # XLA repeats what it takes for cheap, a polynomial say, in everything that uses it. A
    # division it takes for expensive, and by a 1 that it cannot know it does not repeat it.
    return noise / (1.0 + 0.0 * tf.cast(seed[0], noise.dtype))


def _inside(uniform: Tensor) -> Tensor:
    # Uniform numbers are k / 2^n; from the middle of each interval no tail is reached
    # twice as often as the other, and none at infinity.
    return uniform + np.finfo(uniform.dtype.as_numpy_dtype).eps / 2


def uniform(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns noise that is uniform on [-1, 1)."""
    return tf.cast(2.0 * _draw(shape, seed, dtype) - 1.0, dtype)


def rademacher(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns random signs, -1 or 1 with equal probability."""
    size = _size(shape)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(size + 31) // 32, 1], dtype=tf.int32, **_source(seed)
    )
    # Each bit in turn becomes the sign of a float whose other bits are those of 1.
    bits = tf.bitwise.left_shift(words, tf.range(32))
    bits = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(bits, _SIGN_BIT), _BITS_OF_ONE)
    signs = tf.reshape(tf.bitcast(bits, tf.float32), [-1])[:size]
    return tf.cast(tf.reshape(signs, shape), dtype)


def _draw(shape: Any, seed: Tensor, dtype: Any) -> Tensor:
    # Half precision is a matter of the result: its few bits would make a poor
    # generator, with atoms and a short tail.
    drawn = tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=shape, dtype=drawn, **_source(seed)
    )


def _source(seed: Tensor) -> dict[str, Tensor]:
    """Returns what the random ops of TensorFlow take for a seed."""
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    algorithm = tf.where(_is_compiled(), _THREEFRY, _PHILOX)
    return {"key": key, "counter": counter, "alg": algorithm}


def _is_compiled() -> Tensor | bool:
    """Returns whether XLA compiles what is being traced, or a tensor that will know."""
    if tf.executing_eagerly():
        return False
    known = passes.current().is_compiled
    if known is not None:
        return known
    # Of a compiled op this says that it is on none of the devices.
    return tf.raw_ops.DeviceIndex(device_names=_DEVICES) == len(_DEVICES)


def _size(shape: Any) -> Tensor:
    return tf.reduce_prod(tf.convert_to_tensor(shape, tf.int32))
