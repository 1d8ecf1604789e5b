"""TensorFlow can optimize the graphs of layers as it is installed, with oneDNN."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import keras, numpy as np, tfvn
layer = getattr(tfvn, {layer!r})
options = {{"activation": "relu", **{options!r}}}
model = tfvn.Sequential([keras.Input((4,)), layer(8, **options), layer(3, **options)])
model.compile("sgd", "mse", kl_schedule=0.001, jit_compile=False)
model.fit(np.ones((8, 4)), np.ones((8, 3)), verbose=0)
tfvn.ensemble_predict(model, np.ones((8, 4)), 2)
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("layer", "options"),
    [
        ("MeanFieldDense", {}),
        ("MeanFieldDense", {"bias_posterior": "mean_field"}),
        ("MeanFieldDense", {"estimator": "flipout"}),
        ("MeanFieldDense", {"estimator": "weights"}),
        ("KTiedDense", {}),
        ("GaussianDropoutDense", {}),
    ],
)
def test_fit_and_ensemble_with_one_dnn(layer, options):
    # The tests themselves run without oneDNN, which a process decides once.
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "0"
    script = SCRIPT.format(layer=layer, options=options)
    command = [sys.executable, "-W", "ignore", "-c", script]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "optimiz" not in result.stderr.replace("is optimized to use", "")
