"""The one source of noise: fast, reproducible, different on every replica.

Every layer owns a `SeedGenerator` and turns its seeds into noise with the functions
below. They are stateless, so the same seed gives the same noise in eager code and in
graphs (XLA makes other numbers of the same bits, the same ones every time), and they
name their algorithm: Philox, because under XLA on a CPU the default is slower.
"""

import contextlib
import contextvars
from collections.abc import Collection, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# The only way to tell the body of a loop from other graphs; it has no public name.
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph

# 2**32 divided by the golden ratio, as a signed number: multiples of it are far
# apart, so replicas end up with unrelated Philox keys.
_REPLICA_STRIDE = -1640531527

# Of a float32.
_SIGN_BIT = -(2**31)
_BITS_OF_ONE = 0x3F800000

Tensor = Any


class Stream:
    """Seeds that are a pure function of one seed and of how many were taken before.

    Within `drawn_from(stream)`, noise depends on nothing else, so that a prediction can
    be repeated, and exported. What asks in the body of a `tf.while_loop`, a cell of a
    recurrent layer say, gets another seed in every step.

    Args:
        seed: Two integers: the seed of noise that the examples of a batch share, such
            as a kernel.
        example_seed: The seed of noise that each example has for itself; `None` is one
            that `seed` determines. Batches with other such seeds and the same `seed`
            share kernels and nothing else.
        per_example: The seed generators whose noise is per example unless they say
            otherwise.
    """

    def __init__(
        self,
        seed: Tensor,
        example_seed: Tensor | None = None,
        per_example: Collection[Any] = (),
    ):
        self._seed = seed
        self._example_seed = fold_in(seed, -1) if example_seed is None else example_seed
        self._per_example = {id(generator) for generator in per_example}
        self._taken = 0
        self._loops_around = _loops()

    def next(self, generator: Any, per_example: bool | None = None) -> Tensor:
        """Returns the next seed, in place of one of a generator's own."""
        if per_example is None:
            per_example = id(generator) in self._per_example
        self._taken += 1
        seed = self._take(
            self._example_seed if per_example else self._seed, self._taken
        )
        for loop in _loops():
            if loop not in self._loops_around:
                # Its body is traced once; that of TensorFlow counts the steps, in what is
                # the first of its arguments.
                seed = fold_in(seed, loop.get_operations()[0].outputs[0])
        return seed

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return fold_in(seed, number)


def _loops() -> list[Any]:
    """Returns the bodies of loops that are being traced, the innermost first."""
    graph, loops = tf.compat.v1.get_default_graph(), []
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph):
            loops.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return loops


_stream: contextvars.ContextVar[Stream | None] = contextvars.ContextVar(
    "stream", default=None
)


def current_stream() -> Stream | None:
    """Returns the stream that seeds are taken from, here and now, if there is one."""
    return _stream.get()


@contextlib.contextmanager
def drawn_from(stream: Stream) -> Iterator[None]:
    """Makes seed generators that are asked in the context take seeds from a stream.

    The state belongs to the thread (or task) that entered the context, and no generator
    moves on.

    Example:

    >>> import tfvn
    >>> generator = tfvn.random.SeedGenerator(1)
    >>> def draw():
    ...     with tfvn.random.drawn_from(tfvn.random.Stream([0, 7])):
    ...         return tfvn.random.normal((3,), generator.next()).numpy()
    >>> bool((draw() == draw()).all())
    True
    """
    token = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(token)


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
                own, rather than one that they share. It matters within `drawn_from`
                only, where `None` lets the stream decide.
        """
        stream = current_stream()
        if stream is not None:
            return stream.next(self, per_example)
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

    By inversion of a uniform number: `tf.random.stateless_normal` is slower, twice as
    slow under XLA on a CPU. Values end at 5.3, as they do in every library that inverts
    a float32. Predictions, which take their seeds from a stream and are not compiled by
    XLA, are half noise; they get it by Box and Muller's method, a fifth faster there
    (under XLA, whose sines are slow, it would be slower by a third to a half).
    """
    draw = _invert if current_stream() is None else _box_muller
    return tf.cast(draw(shape, seed, dtype), dtype)


def _invert(shape: Any, seed: Tensor, dtype: Any) -> Tensor:
    return tf.math.ndtri(_inside(_draw(shape, seed, dtype)))


def _box_muller(shape: Any, seed: Tensor, dtype: Any) -> Tensor:
    size = _size(shape)
    uniform = _draw(tf.stack([2, (size + 1) // 2]), seed, dtype)
    radius = tf.sqrt(-2.0 * tf.math.log(_inside(uniform[0])))
    angle = (2.0 * np.pi) * uniform[1]
    both = tf.concat([radius * tf.cos(angle), radius * tf.sin(angle)], axis=0)
    return tf.reshape(both[:size], shape)


def _inside(uniform: Tensor) -> Tensor:
    # Uniform numbers are k / 2^n; from the middle of each interval no tail is reached
    # twice as often as the other, and none at infinity.
    return uniform + np.finfo(uniform.dtype.as_numpy_dtype).eps / 2


def uniform(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns noise that is uniform on [-1, 1)."""
    return tf.cast(_draw(shape, seed, dtype, minval=-1, maxval=1), dtype)


def rademacher(shape: Any, seed: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns random signs, -1 or 1 with equal probability."""
    size = _size(shape)
    words = tf.random.stateless_uniform(
        [(size + 31) // 32, 1], seed, None, None, tf.int32, alg="philox"
    )
    # Each bit in turn becomes the sign of a float whose other bits are those of 1.
    bits = tf.bitwise.left_shift(words, tf.range(32))
    bits = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(bits, _SIGN_BIT), _BITS_OF_ONE)
    signs = tf.reshape(tf.bitcast(bits, tf.float32), [-1])[:size]
    return tf.cast(tf.reshape(signs, shape), dtype)


def _draw(shape: Any, seed: Tensor, dtype: Any, **kwargs: Any) -> Tensor:
    # Half precision is a matter of the result: its few bits would make a poor
    # generator, with atoms and a short tail.
    drawn = tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32
    return tf.random.stateless_uniform(shape, seed, dtype=drawn, alg="philox", **kwargs)


def _size(shape: Any) -> Tensor:
    return tf.reduce_prod(tf.convert_to_tensor(shape, tf.int32))
