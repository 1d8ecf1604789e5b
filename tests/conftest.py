"""What every test starts from: a quiet TensorFlow, two devices, a fixed seed."""

import collections
import gc
import os

import pytest

from _tfvn_command import quiet_tensorflow

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    from tfvn import estimators, posteriors, priors, support
    from tfvn.distributions import serialization

# Two logical devices, so that `MirroredStrategy` has replicas. They have to be there
# before TensorFlow is first used, and cost nothing to tests that don't want them.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration() for _ in range(2)],
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
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


def pytest_collection_finish():
    """Spares the garbage collector what is there to stay, a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _clean_traces():
    """Drops the models and the traces that the tests of a file have left in cycles."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _clean_keras():
    """Gives every test the same seed, and takes its traces out of Keras."""
    policy = keras.config.dtype_policy()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy(policy)
    keras.utils.clear_session(free_memory=False)


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
