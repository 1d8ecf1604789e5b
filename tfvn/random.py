"""The one source of noise: fast, reproducible, different on every replica.

Every layer owns a `SeedGenerator` and turns its seeds into noise with the functions
below. They are stateless, so the same seed gives the same noise in eager code and in
graphs. XLA gives other noise, but also the same every time. The functions choose their
algorithm: Philox and, under XLA, ThreeFry, because the default is far slower there on a
CPU.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import passes
from tfvn.utils import private, private_training

# 2**32 divided by the golden ratio, as a signed number. Multiples of it are far apart,
# so that replicas get unrelated Philox keys.
_REPLICA_STRIDE = -1640531527

# TensorFlow's numbers for algorithms. The next, `_PHILOX + 1`, is ThreeFry: only XLA has it,
# and it takes half the time there.
_PHILOX = 1

# The devices of an op, unless XLA compiles it.
_DEVICES = ["CPU", "GPU"]

# Bits of a float32.
_SIGN_BIT = -(2**31)
_BITS_OF_ONE = 0x3F800000

# In a prediction, this many consecutive normal numbers come from cosines, and the same
# number from the sines of the same angles.
_RUN = 64

Tensor = Any


class Stream:
    """Seeds that depend only on one seed and on how many seeds were taken before.

    In a pass with a stream, noise depends on nothing else, so that a prediction can be
    repeated and exported, and no seed generator advances. Code in the body of a
    `tf.while_loop`, such as a cell of a recurrent layer, gets another seed in every step.

    Args:
        seed: Two integers: the seed of noise that the examples of a batch share, such
            as a kernel.
        example_seed: The seed of noise that each example has for itself; `None` derives
            it from `seed`. Batches with the same `seed` and different `example_seed`
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
        self._loops_around = private_training.loops()

    def next(self, per_example: bool | None = None) -> Tensor:
        """Returns the next seed.

        Args:
            per_example: Whether each example of a batch has its own noise, rather than
                noise that all share.
        """
        self._taken += 1
        seed = self._take(
            self._example_seed if per_example else self._seed, self._taken
        )
        for loop in private_training.loops():
            if loop not in self._loops_around:
                seed = fold_in(seed, private_training.step_of(loop))
        return seed

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return fold_in(seed, number)


def fold_in(seed: Tensor, number: Tensor) -> Tensor:
    """Returns a new seed that depends on a seed and on a number.

    All of its 64 bits depend on both; `tf.random.experimental.stateless_fold_in` keeps
    32 bits of the seed, too few for as many blocks of rows as a data set has.
    """
    seed = tf.cast(seed, tf.int32) + tf.stack([0, tf.cast(number, tf.int32)])
    return tf.random.stateless_uniform([2], seed, None, None, tf.int32, alg="philox")


class SeedGenerator(keras.random.SeedGenerator):
    """A `keras.random.SeedGenerator` whose seeds differ between replicas.

    Under `tf.distribute`, Keras's own generator gives the same seed to every replica, so
    that all of them draw the same noise. This one adds the replica's id to the seed;
    outside a strategy both give the same seeds.

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
            per_example: Whether each example of a batch has its own noise, rather than
                noise that all share. It matters only in a pass with a stream; there
                `None` takes the answer from the layer.
        """
        now = passes.current()
        if now.stream is not None:
            now.record.asked.add(id(self))
            return now.stream.next(per_example)
        seed = super().next(ordered=ordered)
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1:
            # The id is a tensor if one program serves all replicas (TPU), so the sum
            # has to be part of the graph.
            replica_id = tf.cast(replica.replica_id_in_sync_group, seed.dtype)
            seed += tf.stack([replica_id * _REPLICA_STRIDE, 0])
        # The samplers of TFP take only 32 bits.
        return tf.cast(seed, tf.int32)


def set_seed_generator(layer: Any, seed: int | None) -> None:
    """Gives a layer a new `SeedGenerator`, in place of any that it has.

    Keras's own layers with dropout, such as the cells of recurrent layers, already have one,
    which would be saved beside the new one and gives all replicas the same noise.

    Args:
        layer: A Keras layer.
        seed: Python integer or `None`, as in `SeedGenerator`.
    """
    if hasattr(layer, "seed_generator"):
        private.untrack(layer, layer.seed_generator)
    layer.seed_generator = SeedGenerator(seed)


def normal(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns standard normal noise.

    `tf.random.stateless_normal` is slower by half, and under XLA by far more. Under XLA
    this function inverts uniform numbers, and the largest value is 5.3, as in every
    library that inverts a float32. Elsewhere Box and Muller's method is faster (XLA
    computes its sines slowly); there the largest value is 5.8.

    In a pass with a stream, the first numbers do not depend on how many follow, as in all
    other functions here: the noise of a row does not depend on the rows after it.
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
            noise = tf.switch_case(is_compiled, transforms)
    return tf.cast(tf.reshape(tf.reshape(noise, [-1])[:size], shape), dtype)


def _box_muller(first: Tensor, second: Tensor, axis: int = 0) -> Tensor:
    radius = tf.sqrt(-2.0 * tf.math.log(_inside(first)))
    angle = (2.0 * np.pi) * second
    return tf.stack([radius * tf.cos(angle), radius * tf.sin(angle)], axis=axis)


def _invert(uniform: Tensor, seed: Tensor) -> Tensor:
    return tf.math.ndtri(_inside(uniform)) / _one(seed, uniform.dtype)


def _inside(uniform: Tensor) -> Tensor:
    # Uniform numbers are k / 2^n. The middle of each interval makes both tails equally
    # likely and infinity impossible.
    return uniform + np.finfo(uniform.dtype.as_numpy_dtype).eps / 2


def uniform(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns noise that is uniform on [-1, 1)."""
    drawn = _draw(shape, seed, dtype)
    return tf.cast(drawn / (0.5 * _one(seed, drawn.dtype)) - 1.0, dtype)


def rademacher(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns random signs, -1 or 1 with equal probability."""
    size = _size(shape)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(size + 31) // 32, 1], dtype=tf.int32, **_source(seed)
    )
    # Without the division XLA would compute each word again for each of its 32 bits.
    words = tf.raw_ops.Div(x=words, y=_one(seed, words.dtype))
    # Each bit becomes the sign of a float whose other bits are those of 1.
    bits = tf.bitwise.left_shift(words, tf.range(32))
    bits = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(bits, _SIGN_BIT), _BITS_OF_ONE)
    signs = tf.reshape(tf.bitcast(bits, tf.float32), [-1])[:size]
    return tf.cast(tf.reshape(signs, shape), dtype)


def _draw(shape: Any, seed: Tensor, dtype: Any) -> Tensor:
    # Only the result is cast to half precision. Noise that is drawn in its few bits
    # would have few different values and a short tail.
    drawn = tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=shape, dtype=drawn, **_source(seed)
    )


def _source(seed: Tensor) -> dict[str, Tensor]:
    """Returns the arguments of TensorFlow's random ops for a seed."""
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return {"key": key, "counter": counter, "alg": _PHILOX + _is_compiled()}


def _is_compiled() -> Tensor | bool:
    """Returns whether XLA compiles the current trace, or a tensor that tells at run time.

    The tensor is 1 or 0. Ops on a GPU wait for it in the memory of the host, where
    TensorFlow adds and compares int32 numbers, but does not cast or select them.
    """
    if tf.executing_eagerly():
        return False
    known = passes.current().is_compiled
    if known is not None:
        return known
    # For a compiled op the index says that it is on none of the devices, 2.
    index = tf.raw_ops.DeviceIndex(device_names=_DEVICES)
    return tf.maximum(index, len(_DEVICES) - 1) - (len(_DEVICES) - 1)


def _one(seed: Tensor, dtype: Any) -> Tensor:
    """Returns a 1 of which XLA does not know that it is 1, to divide noise by.

    XLA computes what it considers cheap, such as a polynomial or the bits of a random
    number, again in every op that uses it. It considers a division expensive, and stores
    the result.

    This is more than speed: LLVM does not finish compiling a loop whose steps use one of
    two random numbers, such as 64 signs from the bits of two integers. Its vectorizer
    follows both uses of each value in the 20 rounds of ThreeFry, so that the work doubles
    in every round.
    """
    if _is_compiled() is False:
        return tf.ones((), dtype)
    return tf.cast(1.0 + 0.0 * tf.cast(seed[0], tf.float32), dtype)


def _size(shape: Any) -> Tensor:
    return tf.reduce_prod(tf.convert_to_tensor(shape, tf.int32))
