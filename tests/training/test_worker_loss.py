"""The start of several workers, what they agree on, and the loss of one.

What needs several processes is in `test_worker_processes.py`.
"""

import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.training import replicas, workers
from tfvn.utils import private_training

CLUSTER = (
    '{"cluster": {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"]}, '
    '"task": {"type": "worker", "index": 1}}'
)


class Resolver:
    """What a strategy knows of its workers."""

    def __init__(self, jobs, job, index):
        self.jobs = jobs
        self.task_type = job
        self.task_id = index

    def cluster_spec(self):
        return tf.train.ClusterSpec(self.jobs)


class Strategy:
    """A strategy with replicas in other processes, whose numbers are 7."""

    num_replicas_in_sync = 4

    def __init__(self, jobs, job, index):
        self.cluster_resolver = Resolver(jobs, job, index)
        self.extended = self
        self.worker_devices = ("/device:CPU:0",)

    def reduce(self, operation, value, axis):
        assert (operation, axis) == (tf.distribute.ReduceOp.SUM, None)
        assert value.dtype == tf.int64
        return value + 7 * tf.cast(value == 0, tf.int64)


WITH_CHIEF = {"chief": ["a:1"], "worker": ["b:1", "c:1", "d:1"]}
ALIKE = {"worker": ["a:1", "b:1", "c:1", "d:1"]}


@pytest.mark.parametrize(
    ("jobs", "job", "index", "place"),
    [
        (WITH_CHIEF, "chief", 0, 0),
        (WITH_CHIEF, "worker", 0, 1),
        (WITH_CHIEF, "worker", 2, 3),
        (ALIKE, "worker", 0, 0),
        (ALIKE, "worker", 3, 3),
    ],
)
def test_of_all_workers(jobs, job, index, place):
    strategy = Strategy(jobs, job, index)
    assert workers.is_chief(strategy) == (place == 0)
    wanted = [7, 7, 7, 7]
    wanted[place] = 2**40
    assert workers.of_all_workers(strategy, 2**40) == wanted


def test_one_process_agrees_with_itself(two_replicas):
    for strategy in (tf.distribute.get_strategy(), two_replicas):
        assert workers.is_chief(strategy)
        assert not replicas.has_several_workers(strategy)
        assert workers.of_all_workers(strategy, 3) == [3]


class Model:
    """Something with a strategy and a method that fails."""

    def __init__(self, error, strategy):
        self.error = error
        self.distribute_strategy = strategy

    @workers.explains_loss
    def fit(self, x, y=None):
        """Fits."""
        if self.error is not None:
            raise self.error
        return x, y


OF_LOSS = [
    tf.errors.UnavailableError(
        None,
        None,
        "{{function_node x}} Collective ops is aborted by: Socket closed\nAdditional GRPC "
        "error information from remote target /job:worker/replica:0/task:1",
    ),
    tf.errors.DeadlineExceededError(
        None,
        None,
        "Collective ops is aborted by: Deadline Exceeded\n\nRPC: "
        "/tensorflow.CoordinationService/Heartbeat",
    ),
]


@pytest.mark.parametrize("error", OF_LOSS, ids=["closed", "silent"])
def test_loss_of_a_worker_is_explained(error):
    model = Model(error, Strategy(ALIKE, "worker", 0))
    with pytest.raises(ConnectionError) as caught:
        model.fit(1)
    message = str(caught.value)
    start = "A worker of the `MultiWorkerMirroredStrategy` was lost"
    assert message.startswith(start)
    assert "start all workers again with the same command" in message
    # Which worker it was, if TensorFlow knows it.
    wanted = (
        "Received: Socket closed Additional GRPC error information from remote target"
    )
    if "Socket closed" in error.message:
        assert f"{wanted} /job:worker/replica:0/task:1" in message
    else:
        assert "Received: Deadline Exceeded RPC:" in message
    assert "\n" not in message
    assert caught.value.__cause__ is error


def test_other_errors_stay_what_they_are(two_replicas):
    several = Strategy(ALIKE, "worker", 0)
    of_data = tf.errors.InternalError(None, None, "The file of the data is damaged")
    for error, strategy in [
        (OF_LOSS[0], two_replicas),
        (of_data, several),
        (tf.errors.InvalidArgumentError(None, None, "/job:worker"), several),
        (KeyError("x"), several),
    ]:
        with pytest.raises(type(error)) as caught:
            Model(error, strategy).fit(1)
        assert caught.value is error
    assert Model(None, several).fit(1, y=2) == (1, 2)
    assert Model.fit.__doc__ == "Fits."


class Lose(keras.callbacks.Callback):
    def lose(self, *_):
        raise OF_LOSS[0]

    on_epoch_end = on_test_end = on_predict_end = lose


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_methods_of_a_model_explain_it(monkeypatch, method):
    monkeypatch.setattr(workers, "has_several_workers", lambda _: True)
    model = tfvn.Sequential([keras.Input((1,)), tfvn.VarianceDense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    data = [np.ones((2, 1))] * (1 if method == "predict" else 2)
    with pytest.raises(ConnectionError, match="was lost, and no worker can"):
        getattr(model, method)(*data, callbacks=[Lose()], verbose=0)


class TestStart:
    def test_needs_a_cluster(self, monkeypatch):
        monkeypatch.delenv("TF_CONFIG", raising=False)
        with pytest.raises(ValueError, match="Set the environment variable"):
            tfvn.multi_worker_strategy()

    @pytest.mark.parametrize("timeout", [0, -1.0, float("inf"), "1", None])
    def test_wrong_timeout(self, timeout):
        with pytest.raises(ValueError, match="`timeout` must be a finite number"):
            tfvn.multi_worker_strategy(timeout)

    def test_too_late(self, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", CLUSTER)
        tf.zeros(1).numpy()  # starts TensorFlow
        with pytest.raises(RuntimeError, match="before anything else is computed"):
            tfvn.multi_worker_strategy()

    def test_peer_that_ends_during_the_start(self, monkeypatch):
        configured = []

        def fail(**_):
            # TensorFlow's code for preemptions.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            raise tf.errors.DeadlineExceededError(
                None, None, "Barrier timed out.\nId: 1"
            )

        def configure(*arguments):
            configured.append(arguments)

        monkeypatch.setenv("TF_CONFIG", CLUSTER)
        monkeypatch.setattr(private_training, "tensorflow_has_started", lambda: False)
        monkeypatch.setattr(private_training, "configure_coordination", configure)
        monkeypatch.setattr(workers, "wait_for_all", lambda *_: None)
        monkeypatch.setattr(workers, "_Strategy", fail)
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(
            TimeoutError, match=r"ended before.*Received: Barrier timed"
        ):
            tfvn.multi_worker_strategy(timeout=5)
        assert signal.getsignal(signal.SIGTERM) == before
        # The seconds are those that the documentation of the function promises.
        assert configured == [({"worker": 2}, 15, 10)]
