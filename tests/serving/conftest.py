"""A classifier, its export, and all ways to ask it."""

import types

import keras
import numpy as np
import pytest
from clients import CppClient, GrpcClient, RestClient
from loader import LoadedModel
from protocol_fixture import ProtocolFixture

import tfvn

NUM_SAMPLES = 6


def make_classifier():
    """Returns a model with random weights and dropout, no draw of which is like another."""
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            tfvn.MeanFieldDense(8, activation="relu", kl_weight=1.0),
            keras.layers.Dropout(0.3),
            # Random biases: if dropout leaves nothing, they are still there.
            tfvn.MeanFieldDense(
                3,
                activation="softmax",
                bias_posterior="mean_field",
                kl_weight=1.0,
            ),
        ],
        name="irises",
    )


@pytest.fixture(scope="session")
def classifier():
    keras.utils.set_random_seed(1)
    return make_classifier()


@pytest.fixture(scope="session")
def export(classifier, tmp_path_factory):
    """The version directory of an export."""
    # What must not find its way into the export.
    keras.utils.set_random_seed(2)
    base = tmp_path_factory.mktemp("models") / "irises"
    return tfvn.export_ensemble(
        classifier, base, NUM_SAMPLES, labels=["setosa", "versicolor", "virginica"]
    )


@pytest.fixture(scope="session")
def loaded(export):
    return LoadedModel(export)


@pytest.fixture(scope="session")
def fixtures(export):
    """The protocol fixture, without and with batches of several clients."""
    with (
        ProtocolFixture(export.parent) as alone,
        ProtocolFixture(export.parent, batching=True) as merging,
    ):
        yield types.SimpleNamespace(alone=alone, merging=merging)


@pytest.fixture(scope="session")
def clients(fixtures, loaded):
    """Clients by door, of the fixture that merges requests as well."""
    found = {"cpp": CppClient(loaded)}
    for prefix, fixture in (("", fixtures.alone), ("merged_", fixtures.merging)):
        found[f"{prefix}grpc"] = GrpcClient(fixture.grpc_address, fixture.name)
        for form in ("row", "columnar"):
            found[f"{prefix}{form}"] = RestClient(
                fixture.rest_address, fixture.name, form == "row"
            )
    yield found
    for client in found.values():
        if isinstance(client, GrpcClient):
            client.channel.close()


@pytest.fixture(
    params=["cpp", "grpc", "row", "columnar", "merged_grpc", "merged_row"],
)
def client(clients, request):
    """A client of each kind in turn."""
    return clients[request.param]


@pytest.fixture(scope="session")
def rows():
    return np.random.default_rng(0).normal(size=(5, 4)).astype("float32")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, in which the command is run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """An export whose mean tells its pixels: the sums of the upper and lower rows."""
    inputs = keras.Input((2, 2, 1))
    hidden = keras.layers.Reshape((2, 2))(inputs)
    hidden = keras.layers.Lambda(lambda x: keras.ops.sum(x, -1), output_shape=(2,))(
        hidden
    )
    hidden = keras.layers.GaussianNoise(1e-9)(hidden)
    base = tmp_path_factory.mktemp("models") / "images"
    return tfvn.export_ensemble(
        keras.Model(inputs, hidden), base, 2, outputs="regression"
    )


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """An export with an input of text and one of numbers, and two outputs."""
    name, age = (
        keras.Input((1,), dtype="string", name="name"),
        keras.Input((), name="age"),
    )
    known = keras.layers.StringLookup(vocabulary=["Eve"], output_mode="one_hot")(name)
    hidden = keras.layers.Concatenate()([known, keras.layers.Reshape((1,))(age)])
    hidden = tfvn.MeanFieldDense(3, prior=None)(hidden)
    outputs = {
        "risk": keras.layers.Dense(1, activation="sigmoid")(hidden),
        "dose": keras.layers.Dense(2)(hidden),
    }
    base = tmp_path_factory.mktemp("models") / "people"
    return tfvn.export_ensemble(
        keras.Model({"name": name, "age": age}, outputs),
        base,
        2,
        outputs={"risk": "binary_probabilities", "dose": "regression"},
        labels={"risk": ["low", "high"]},
    )
