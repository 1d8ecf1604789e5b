"""The source of noise: its laws, and when it repeats itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from ztests import assert_follows, assert_moments, assert_uncorrelated

import tfvn
from tfvn import passes, random

COUNT = 100_000


def normal_of_predictions(shape, seed, dtype="float32"):
    with passes.changed(stream=random.Stream([0, 0])):
        return random.normal(shape, seed, dtype)


DRAWS = {
    "normal": (random.normal, stats.norm(), 1.0),
    "normal of predictions": (normal_of_predictions, stats.norm(), 1.0),
    "uniform": (random.uniform, stats.uniform(-1, 2), 1.0 / 3.0),
    "rademacher": (random.rademacher, None, 1.0),
}


@pytest.mark.parametrize("name", DRAWS)
class TestLaws:
    def test_moments(self, name):
        draw, _, variance = DRAWS[name]
        noise = draw((COUNT, 4), (1, 2)).numpy()
        assert_moments(noise, np.zeros(4), np.full(4, variance))

    def test_distribution(self, name):
        draw, law, _ = DRAWS[name]
        noise = draw((COUNT,), (3, 4)).numpy()
        if law is None:
            assert set(np.unique(noise)) == {-1.0, 1.0}
        else:
            assert_follows(noise, law)

    def test_elements_are_uncorrelated(self, name):
        draw, _, _ = DRAWS[name]
        noise = draw((COUNT, 4), (5, 6)).numpy()
        assert_uncorrelated(noise[:, :-1], noise[:, 1:])
        assert_uncorrelated(noise[:-1], noise[1:])

    def test_neighbouring_seeds_are_uncorrelated(self, name):
        draw, _, _ = DRAWS[name]
        noises = [draw((COUNT,), seed).numpy() for seed in [(1, 0), (1, 1), (2, 0)]]
        for other in noises[1:]:
            assert_uncorrelated(noises[0], other)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_dtype(self, name, dtype):
        draw, _, variance = DRAWS[name]
        noise = draw((COUNT,), (1, 2), dtype)
        assert noise.dtype == dtype
        assert_moments(tf.cast(noise, tf.float64), 0.0, variance, rounding=1e-3)

    @pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 3)])
    def test_shape(self, name, shape):
        draw, _, _ = DRAWS[name]
        assert draw(shape, (1, 2)).shape == shape

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_half_precision_is_rounded_single_precision(self, name, dtype):
        draw, _, _ = DRAWS[name]
        rounded = tf.cast(draw((100,), (1, 2)), dtype)
        np.testing.assert_array_equal(draw((100,), (1, 2), dtype), rounded)

    def test_same_in_eager_code_and_graphs(self, name):
        draw, _, _ = DRAWS[name]
        seed = tf.constant([7, 8])
        in_graph = tf.function(lambda seed: draw((50, 3), seed))
        np.testing.assert_array_equal(in_graph(seed), draw((50, 3), seed))

    def test_compiled_noise_is_reproducible_and_of_the_same_law(self, name):
        draw, law, variance = DRAWS[name]

        @tf.function(jit_compile=True)
        def compiled(seed):
            return draw((COUNT, 2), seed)

        noise = compiled(tf.constant([1, 0])).numpy()
        np.testing.assert_array_equal(compiled(tf.constant([1, 0])), noise)
        assert_moments(noise, np.zeros(2), np.full(2, variance))
        assert_uncorrelated(noise[:, 0], noise[:, 1])
        assert_uncorrelated(noise, compiled(tf.constant([1, 1])))
        if law is None:
            assert set(np.unique(noise)) == {-1.0, 1.0}
        else:
            assert_follows(noise, law)

    @pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
    @pytest.mark.parametrize("dtype", ["float16", "float64"])
    def test_compiled_shape_and_dtype(self, name, shape, dtype):
        draw, _, _ = DRAWS[name]
        noise = tf.function(lambda: draw(shape, (1, -2), dtype), jit_compile=True)()
        assert noise.shape == shape
        assert noise.dtype == dtype
        assert np.all(np.isfinite(noise))

    def test_shape_may_be_a_tensor(self, name):
        draw, _, _ = DRAWS[name]

        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def like(x):
            return draw(tf.shape(x), (1, 2))

        np.testing.assert_array_equal(like(tf.zeros((5, 3))), draw((5, 3), (1, 2)))


@pytest.mark.parametrize("draw", [random.normal, normal_of_predictions, random.uniform])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_double_precision_has_all_its_digits(draw, jit_compile):
    draw = tf.function(draw, jit_compile=jit_compile)
    noise = draw((1000,), tf.constant([1, 2]), "float64").numpy()
    # Of numbers drawn in float32, at most a few more digits would be different from zero.
    assert len(np.unique(np.modf(noise * 2.0**30)[0])) > 900


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 23), ("float64", 52)])
def test_the_tails_of_normal_noise_are_finite_and_alike(dtype, bits):
    # The smallest and the largest of the uniform numbers k / 2^bits.
    ends = tf.constant([0.0, 1.0 - 2.0**-bits], dtype)
    low, high = random._invert(ends, tf.constant([1, 2])).numpy()
    assert np.isfinite(low)
    np.testing.assert_allclose(-low, high, rtol=1e-3)
    radius = random._box_muller(ends, tf.zeros_like(ends))[0].numpy()
    np.testing.assert_allclose(
        radius, np.sqrt([2 * (bits + 1) * np.log(2), 2.0**-bits]), rtol=1e-3
    )


@pytest.mark.parametrize("draw", [random.normal, random.uniform, random.rademacher])
def test_xla_makes_its_own_bits_without_asking_at_run_time(draw):
    compiled = tf.function(lambda seed: draw((8, 3), seed), jit_compile=True)
    program = compiled.experimental_get_compiler_ir(tf.constant([1, 2]))
    assert "rng_three_fry" in program("hlo")
    assert "conditional(" not in program("optimized_hlo")


# If XLA computed so many numbers anew for each use, LLVM would not finish compiling the
# loop; the program is looked at first, because no test can stop the compiler.
@pytest.mark.parametrize(
    ("draw", "count"),
    [(random.normal, 2), (random.uniform, 2), (random.rademacher, 64)],
)
def test_xla_computes_noise_only_once(draw, count):
    # It would repeat all of it, but for the logarithm, in each fusion that uses the noise.
    @tf.function(jit_compile=True)
    def compiled(seed, x):
        noise = draw((128, 64), seed)
        return tf.matmul(noise + 1.0, x), tf.matmul(noise * 2.0, x)

    arguments = tf.constant([1, 2]), tf.ones((64, 8))
    program = compiled.experimental_get_compiler_ir(*arguments)("optimized_hlo")
    assert program.count(" divide(") == 1

    repeated = tf.function(
        lambda seed: tf.repeat(draw((count,), seed), 20), jit_compile=True
    )
    noise = repeated(tf.constant([1, 2])).numpy().reshape(count, 20)
    np.testing.assert_array_equal(noise, np.repeat(noise[:, :1], 20, axis=1))
    assert len(np.unique(noise[:, 0])) == 2


class TestSeedGenerator:
    def draw(self, generator, count=3):
        return np.array([generator.next() for _ in range(count)])

    def test_seed_determines_the_seeds(self):
        first, second, other = (
            self.draw(random.SeedGenerator(seed)) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, second)
        assert np.any(first != other)

    def test_consecutive_seeds_differ(self):
        seeds = self.draw(random.SeedGenerator(1), count=50)
        assert len({tuple(seed) for seed in seeds}) == 50

    def test_none_is_another_seed_every_time(self):
        first, second = (self.draw(random.SeedGenerator()) for _ in range(2))
        assert np.all(first[:, 0] != second[:, 0])

    def test_none_follows_set_random_seed(self):
        seeds = []
        for _ in range(2):
            keras.utils.set_random_seed(4)
            seeds.append(self.draw(random.SeedGenerator()))
        np.testing.assert_array_equal(*seeds)

    def test_is_kerass_own_outside_of_a_strategy(self):
        ours, theirs = random.SeedGenerator(5), keras.random.SeedGenerator(5)
        np.testing.assert_array_equal(self.draw(ours), self.draw(theirs))

    def test_replicas_draw_different_noise(self, two_replicas):
        with two_replicas.scope():
            generator = random.SeedGenerator(1)

        @tf.function
        def step():
            noises = [random.normal((20_000,), generator.next()) for _ in range(2)]
            return tf.stack(noises, axis=-1)

        for _ in range(2):
            first, second = two_replicas.experimental_local_results(
                two_replicas.run(step)
            )
            assert_uncorrelated(first, second)
            # Nor is one replica's second draw the other's first.
            assert_uncorrelated(first[:, 0], second[:, 1])
            assert_uncorrelated(first[:, 1], second[:, 0])

    def test_replicas_do_not_draw_the_noise_of_another_seed(self, two_replicas):
        with two_replicas.scope():
            generators = [random.SeedGenerator(seed) for seed in range(20)]
        step = tf.function(lambda: tf.stack([g.next() for g in generators]))
        seeds = two_replicas.experimental_local_results(two_replicas.run(step))
        assert len(np.unique(np.concatenate(seeds), axis=0)) == 40

    def test_kerass_own_generator_fails_that_test(self, two_replicas):
        with two_replicas.scope():
            generator = keras.random.SeedGenerator(1)
        step = tf.function(lambda: random.normal((100,), generator.next()))
        first, second = two_replicas.experimental_local_results(two_replicas.run(step))
        with pytest.raises(AssertionError, match="The correlation of element"):
            assert_uncorrelated(first, second)

    def test_replicas_are_reproducible(self, two_replicas):
        results = []
        for _ in range(2):
            with two_replicas.scope():
                generator = random.SeedGenerator(1)
            step = tf.function(lambda g=generator: random.normal((5,), g.next()))
            outputs = two_replicas.run(step)
            results.append(two_replicas.experimental_local_results(outputs))
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("estimator", ["local", "weights"])
@pytest.mark.parametrize("make", [tfvn.VarianceDense, tfvn.MeanFieldDense])
class TestLayers:
    X = np.ones((4, 3), "float32")

    def test_seed_determines_the_noise(self, make, estimator):
        outputs = []
        for _ in range(2):
            layer = make(
                2, estimator=estimator, seed=8, kernel_initializer="ones", prior=None
            )
            layer.build((None, 3))
            for variable in layer.trainable_variables:
                variable.assign(np.ones(variable.shape))
            outputs.append([layer(self.X).numpy() for _ in range(2)])
        np.testing.assert_array_equal(*outputs)
        (first, second), _ = outputs
        assert np.all(first != second)

    def test_set_random_seed_determines_all(self, make, estimator):
        outputs = []
        for _ in range(2):
            keras.utils.set_random_seed(9)
            layers = [make(3, estimator=estimator, prior=None) for _ in range(2)]
            outputs.append(keras.Sequential(layers)(self.X).numpy())
        np.testing.assert_array_equal(*outputs)

    def test_layers_without_a_seed_differ(self, make, estimator):
        layers = [make(2, estimator=estimator, prior=None) for _ in range(2)]
        for layer in layers:
            layer.build((None, 3))
            for variable in layer.trainable_variables:
                variable.assign(np.ones(variable.shape))
        first, second = (layer(self.X).numpy() for layer in layers)
        assert np.all(first != second)

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_seed_determines_the_noise_of_graphs(self, make, estimator, jit_compile):
        layer = make(2, estimator=estimator, prior=None, seed=3)
        layer.build((None, 3))
        graph = tf.function(lambda x: layer(x), jit_compile=jit_compile)
        outputs = []
        for function in (graph, graph, layer):
            layer.seed_generator.state.assign([3, 0])
            outputs.append([function(self.X).numpy() for _ in range(2)])
        np.testing.assert_array_equal(outputs[0], outputs[1])
        assert np.all(outputs[0][0] != outputs[0][1])
        # XLA makes other numbers of the same random bits.
        if not jit_compile:
            np.testing.assert_allclose(outputs[2], outputs[0], rtol=1e-5, atol=1e-6)

    def test_replicas_draw_different_noise(self, make, estimator, two_replicas):
        with two_replicas.scope():
            layer = make(50, estimator=estimator, prior=None)
            layer.build((None, 3))
        outputs = two_replicas.run(tf.function(lambda: layer(self.X)))
        first, second = two_replicas.experimental_local_results(outputs)
        assert np.all(first.numpy() != second.numpy())
