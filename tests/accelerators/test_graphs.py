"""What the graphs of steps that XLA does not compile would do on a GPU."""

import keras
import pytest
import tensorflow as tf
from graphs import copied_to_the_host, doubles, operations, without_gpu_kernel
from side_by_side import (
    BATCH,
    NOISE_STRUCTURES,
    OPS,
    compiled,
    estimators_of,
    laws_of,
    prediction_graph,
    priors_of,
    training_graph,
)

import tfvn
from tfvn import random

needs_gpu_kernels = pytest.mark.skipif(
    not tf.test.is_built_with_cuda(),
    reason="this build of TensorFlow registers no kernels of GPUs",
)

MODELS = {
    **{
        f"{op}-{posterior}": lambda op=op, posterior=posterior: estimators_of(
            op, posterior
        )
        for op in OPS
        for posterior in ("variance/gaussian", "mean_field", "k_tied/2")
    },
    "Dense-gaussian_dropout/neuron": lambda: estimators_of(
        "Dense", "gaussian_dropout/neuron"
    ),
    "Dense-variance/bernoulli": lambda: estimators_of("Dense", "variance/bernoulli"),
    **{
        f"priors-{posterior}": lambda posterior=posterior: priors_of(posterior)
        for posterior in ("variance/gaussian", "mean_field", "k_tied/2")
    },
    **{s: lambda s=s: laws_of(s) for s in NOISE_STRUCTURES},
}
QUICK = ("Dense-k_tied/2", "MultiplicativeNoise")
with_models = pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in MODELS
    ],
)
GRAPHS = {"training": training_graph, "prediction": prediction_graph}


@needs_gpu_kernels
@with_models
def test_gpus_have_a_kernel_for_every_op(name):
    model = MODELS[name]()
    for graph in GRAPHS.values():
        assert without_gpu_kernel(graph(model)) == []


class OnlyOnCPUs(keras.layers.Layer):
    """Multiplies integers, and computes a root, for neither of which GPUs have kernels."""

    def call(self, inputs):
        whole = tf.cast(inputs, tf.int32)
        product = tf.matmul(whole, whole, transpose_b=True)
        root = tf.linalg.sqrtm(tf.cast(product, tf.float32))
        return tf.matmul(root, inputs)


@needs_gpu_kernels
def test_that_check_fails_for_ops_and_types_that_only_cpus_have():
    model = compiled([tfvn.VarianceDense(3), OnlyOnCPUs()], (4,))
    missing = without_gpu_kernel(training_graph(model))
    assert missing == ["MatMul(T=int32)", "MatrixSquareRoot(T=float32)"]


DRAWS = (random.normal, random.uniform, random.rademacher)


@needs_gpu_kernels
@pytest.mark.parametrize("draw", DRAWS)
def test_the_choice_of_the_algorithm_stays_on_the_host(draw):
    graph = tf.function(lambda seed: draw((8, 3), seed)).get_concrete_function(
        tf.TensorSpec([2], tf.int32)
    )
    assert "DeviceIndex" in {op.type for op in operations(graph)}
    read = {argument for _, argument, _ in copied_to_the_host(graph)}
    assert read.isdisjoint({"alg", "branch_index"})


@needs_gpu_kernels
def test_that_check_fails_for_a_choice_on_the_device():
    def draw(seed):
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
        is_compiled = tf.raw_ops.DeviceIndex(device_names=["CPU", "GPU"]) == 2
        algorithm = tf.where(is_compiled, 2, 1)
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=[3], key=key, counter=counter, alg=algorithm
        )

    graph = tf.function(draw).get_concrete_function(tf.TensorSpec([2], tf.int32))
    assert ("StatelessRandomUniformV2", "alg", "SelectV2") in copied_to_the_host(graph)


def large_doubles(graph, model):
    """Returns the shapes in double precision that are neither row sums nor thin factors."""
    kernels = [w.shape for w in model.weights if len(w.shape) > 1]
    rows_or_columns = max(max(kernel) for kernel in kernels)
    # The factors of a `k_tied` posterior of rank 2.
    most = 2 * max(rows_or_columns, BATCH)
    shapes = {tf.TensorShape(shape) for _, shape in doubles(graph)}
    return {
        tuple(s) for s in shapes if not s.is_fully_defined() or s.num_elements() > most
    }


@with_models
def test_double_precision_is_for_scalars_and_sums_of_rows(name):
    model = MODELS[name]()
    for graph in GRAPHS.values():
        assert large_doubles(graph(model), model) == set()


def test_that_check_finds_a_kernel_in_double_precision():
    class Double(keras.layers.Dense):
        def call(self, inputs):
            self.add_loss(
                tf.cast(tf.reduce_sum(tf.cast(self.kernel, tf.float64)), tf.float32)
            )
            return super().call(inputs)

    model = compiled([tfvn.VarianceDense(31), Double(31)], (37,))
    assert large_doubles(training_graph(model), model) == {(37, 31)}
