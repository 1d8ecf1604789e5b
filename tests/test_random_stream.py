"""Seeds of a pass with a stream, and how new seeds are made of old ones."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from ztests import assert_follows

import tfvn
from tfvn import passes, random


class TestFoldIn:
    def test_every_bit_counts(self):
        flips = [0, *(1 << bit for bit in range(31)), -(2**31)]
        seeds = [(7 ^ flip, 9) for flip in flips] + [
            (7, 9 ^ flip) for flip in flips[1:]
        ]
        folded = [tuple(random.fold_in(seed, 3).numpy()) for seed in seeds]
        assert len(set(folded)) == len(seeds) == 65
        assert len({first for first, _ in folded}) == 65
        assert len({second for _, second in folded}) == 65

    def test_every_number_gives_another_seed(self):
        folded = [tuple(random.fold_in((7, 9), n).numpy()) for n in range(-5, 20)]
        assert len(set(folded)) == 25


class TestStream:
    """It says where seeds come from, and nothing else."""

    def test_the_kl_is_added(self):
        layer = tfvn.MeanFieldDense(2, kl_weight=1.0)
        with passes.changed(stream=random.Stream([0, 7])):
            first, second = layer(np.ones((3, 4))), layer(np.ones((3, 4)))
        assert (first.numpy() != second.numpy()).all()
        np.testing.assert_allclose(layer.losses[0], layer.kl_divergence(), rtol=1e-6)
        with passes.changed(adds_kl=False):
            layer(np.ones((3, 4)))
        assert layer.losses == []

    def test_each_step_of_a_loop_gets_another_seed(self):
        generator = random.SeedGenerator(1)

        @tf.function
        def draw():
            with passes.changed(stream=random.Stream(tf.constant([0, 7]))):
                return tf.map_fn(
                    lambda _: generator.next(),
                    tf.range(5),
                    fn_output_signature=tf.int32,
                )

        assert len(np.unique(draw().numpy(), axis=0)) == 5
        np.testing.assert_array_equal(draw(), draw())

    def test_loops_around_the_pass_do_not_count(self):
        generator = random.SeedGenerator(1)

        @tf.function
        def draw():
            def once(_):
                with passes.changed(stream=random.Stream(tf.constant([0, 7]))):
                    return generator.next()

            return tf.map_fn(once, tf.range(5), fn_output_signature=tf.int32)

        assert len(np.unique(draw().numpy(), axis=0)) == 1

    def test_examples_have_seeds_of_their_own(self):
        def seeds(example_seed, **kwargs):
            stream = random.Stream([0, 7], example_seed)
            return [tuple(stream.next(**kwargs).numpy()) for _ in range(3)]

        assert seeds([3, 0]) == seeds([4, 0])
        own = {"per_example": True}
        assert set(seeds([3, 0], **own)).isdisjoint(seeds([4, 0], **own))
        assert set(seeds(None, **own)).isdisjoint(seeds(None))

    @pytest.mark.parametrize("draw", [random.normal, random.uniform, random.rademacher])
    def test_noise_of_a_row_does_not_depend_on_those_after_it(self, draw):
        with passes.changed(stream=random.Stream([0, 7])):
            few, many = (draw((rows, 5), (1, 2)).numpy() for rows in (3, 100))
        np.testing.assert_array_equal(few, many[:3])

    @pytest.mark.parametrize("is_compiled", [None, True])
    def test_noise_under_xla(self, is_compiled):
        generator = random.SeedGenerator(1)

        @tf.function(jit_compile=True)
        def draw():
            stream = random.Stream(tf.constant([0, 7]))
            with passes.changed(stream=stream, is_compiled=is_compiled):
                return random.normal((20_000,), generator.next())

        noise = draw().numpy()
        np.testing.assert_array_equal(draw(), noise)
        assert_follows(noise, stats.norm())
        assert generator.state.numpy().tolist() == [1, 0]

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_what_is_known_of_xla_is_what_it_finds_out(self, jit_compile):
        @tf.function(jit_compile=jit_compile)
        def draw(is_compiled):
            with passes.changed(is_compiled=is_compiled):
                return random.normal((50,), (1, 2)), random.rademacher((50,), (3, 4))

        for known, found in zip(draw(jit_compile), draw(None), strict=True):
            np.testing.assert_allclose(known, found, rtol=1e-5)
