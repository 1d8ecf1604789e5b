"""What every test starts from: a quiet TensorFlow, two devices, a fixed seed."""

import collections
import ctypes
import gc
import os

import pytest

from _tfvn_command import quiet_tensorflow

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    # Nothing public forgets a custom gradient.
    from tensorflow.python.framework.ops import gradient_registry

    from tfvn import estimators, posteriors, priors, support
    from tfvn.distributions import serialization

# Two logical devices, so that `MirroredStrategy` has replicas. They have to be there
# before TensorFlow is first used, and cost nothing to tests that don't want them.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration() for _ in range(2)],
)


def pytest_addoption(parser):
    parser.addoption(
        "--part",
        default="1/1",
        help="K/N runs the tests of every N-th file, from the K-th on. TensorFlow never drops "
        "a program that XLA has compiled, so one process for all tests would need too much "
        "memory.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves all but every n-th case of tests marked `one_in(n)` to `make test-all`."""
    counts = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        # Cases that are exhaustive already do not count.
        if mark is None or item.get_closest_marker("exhaustive"):
            continue
        test = item.nodeid.partition("[")[0]
        if counts[test] % mark.args[0]:
            item.add_marker(pytest.mark.exhaustive)
        counts[test] += 1
    part, parts = map(int, config.getoption("--part").split("/"))
    # Tests of one file stay together, because they share what is slow to make.
    files = list(dict.fromkeys(item.path for item in items))[part - 1 :: parts]
    items[:] = [item for item in items if item.path in set(files)]


def pytest_collection_finish():
    """Spares the garbage collector what is there to stay, a million objects."""
    gc.collect()
    gc.freeze()


# After so many tests of a file memory is given back, and once more after the last.
_TESTS_BETWEEN_COLLECTIONS = 100
_since_collection = 0


def _collect():
    """Drops what tests have left in cycles, and gives the memory back to the system."""
    global _since_collection
    _since_collection = 0
    gc.collect()
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(0)


_LIBC = ctypes.CDLL(None)


@pytest.fixture(autouse=True, scope="module")
def _clean_memory():
    """Gives back the memory of the models that the tests of a file have made."""
    yield
    _collect()


_Registry = type(gradient_registry)
_register = _Registry.register
_transient = set()


def _register_and_note(registry, candidate, name=None):
    # `tfp.math.lbeta` is a function that keeps its traces, and needs their gradients.
    if registry is gradient_registry and str(name).startswith("CustomGradient-"):
        graph = tf.compat.v1.get_default_graph()
        if getattr(graph, "name", None) != "lbeta":
            _transient.add(name)
    return _register(registry, candidate, name)


_Registry.register = _register_and_note


def _forget_custom_gradients():
    """Lets go of the graphs in which functions with custom gradients were traced.

    TensorFlow registers such a gradient under a name of its own for every trace, for
    ever, and with it the graph of a whole training step: megabytes for each `fit`.
    """
    while _transient:
        del gradient_registry._registry[_transient.pop()]


@pytest.fixture(autouse=True)
def _clean_keras():
    """Gives every test the same seed, and takes its traces out of Keras."""
    policy = keras.config.dtype_policy()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(policy)
    keras.utils.clear_session(free_memory=False)
    _forget_custom_gradients()
    global _since_collection
    _since_collection += 1
    if _since_collection >= _TESTS_BETWEEN_COLLECTIONS:
        _collect()


@pytest.fixture(scope="session")
def two_replicas():
    """A strategy that splits each batch between two logical CPUs."""
    from harness import two_replicas

    return two_replicas()


@pytest.fixture
def registries(monkeypatch):
    """Forgets, after a test, what it registered."""
    for registry in (posteriors.base.registry, estimators.base.registry):
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    for module, names in {
        priors: ("_BUILDERS", "_ROWS"),
        serialization: ("_CUSTOM",),
        support: ("ESTIMATORS", "RECURRENT_ESTIMATORS", "PRIORS"),
    }.items():
        for name in names:
            copied = {
                key: dict(value) if isinstance(value, dict) else value
                for key, value in getattr(module, name).items()
            }
            monkeypatch.setattr(module, name, copied)
    known = keras.saving.get_custom_objects()
    before = dict(known)
    yield
    known.clear()
    known.update(before)
