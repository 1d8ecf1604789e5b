"""`tfvn.last_layer_laplace` beside `laplace-torch`, for the same weights and data.

    python benchmarks/laplace_torch.py --torch-python PYTHON

PYTHON is an interpreter that has torch and laplace-torch, which need not be this one. Both
libraries fit the last layer of the same trained model (8x8 digits, one hidden layer of 20
units), with and without a bias. The table compares the variances of the weights and the
logarithm of the marginal likelihood at a prior precision of 1, and then the precision and the
marginal likelihood that each finds by itself.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

HIDDEN, CLASSES, EXAMPLES = 20, 10, 1_000

# Runs in the other interpreter. Torch has the kernel transposed, and the bias after it.
TORCH = """
import json, sys, time
import numpy as np, torch
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

data = np.load(sys.argv[1])
x, y = torch.tensor(data["features"]), torch.tensor(data["y"]).long()
results = {}
for bias in (True, False):
    layer = torch.nn.Linear(data["kernel"].shape[0], data["kernel"].shape[1], bias=bias)
    layer.weight.data = torch.tensor(data["kernel"].T.copy())
    if bias:
        layer.bias.data = torch.tensor(data["bias"])
    # A first layer without weights, so that there is a last layer.
    model = torch.nn.Sequential(torch.nn.Identity(), layer)
    for hessian in ("kron", "diag", "full"):
        la = Laplace(
            model, "classification", subset_of_weights="last_layer",
            hessian_structure=hessian, prior_precision=1.0,
        )
        start = time.perf_counter()
        la.fit(DataLoader(TensorDataset(x, y), batch_size=500))
        seconds = time.perf_counter() - start
        if hessian == "diag":
            variance = la.posterior_variance
        elif hessian == "full":
            variance = la.posterior_covariance.diagonal()
        else:
            variance = la.posterior_precision.to_matrix(exponent=-1).diagonal()
        variance = variance.detach().numpy()
        size = layer.weight.numel()
        kernel = variance[:size].reshape(layer.weight.shape).T.tolist()
        at_one = float(la.log_marginal_likelihood())
        la.optimize_prior_precision(method="marglik", n_steps=100, lr=0.1)
        results[f"{hessian} {bias}"] = {
            "variances": kernel + ([variance[size:].tolist()] if bias else []),
            "evidence": at_one,
            "prior_precision": float(la.prior_precision.mean()),
            "best": float(la.log_marginal_likelihood()),
            "seconds": seconds,
        }
print(json.dumps(results))
"""


def make(tfvn: Any, keras: Any) -> tuple[Any, Any, Any]:
    """Returns a trained model and its data."""
    keras.utils.set_random_seed(1)
    (x, y), _ = tfvn.datasets.load("digits")
    x, y = x[:EXAMPLES].reshape(EXAMPLES, -1), y[:EXAMPLES]
    model = keras.Sequential([keras.Input((x.shape[1],))])
    model.add(keras.layers.Dense(HIDDEN, activation="tanh"))
    model.add(keras.layers.Dense(CLASSES, activation="softmax"))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=20, verbose=0)
    return model, x, y


def ours(tfvn: Any, model: Any, x: Any, y: Any, hessian: str) -> dict[str, Any]:
    """Returns what this library finds."""
    start = time.perf_counter()
    fixed = tfvn.last_layer_laplace(model, x, y, hessian, prior_precision=1.0)
    seconds = time.perf_counter() - start
    free = tfvn.last_layer_laplace(model, x, y, hessian).layers[-1].posterior
    posterior = fixed.layers[-1].posterior
    return {
        "variances": posterior.variance().numpy(),
        "evidence": posterior.log_marginal_likelihood,
        "prior_precision": free.prior_precision,
        "best": free.log_marginal_likelihood,
        "seconds": seconds,
    }


def main() -> None:
    """Fits with both and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch-python", required=True)
    python = parser.parse_args().torch_python
    with quiet_tensorflow():
        import keras

        import tfvn
    model, x, y = make(tfvn, keras)
    hidden, last = model.layers
    features = keras.ops.convert_to_numpy(hidden(x))
    kernel, bias = last.get_weights()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data.npz"
        np.savez(path, features=features, y=y, kernel=kernel, bias=bias)
        run = subprocess.run(  # noqa: S603  the user's own interpreter
            [python, "-c", TORCH, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode:
        sys.exit(f"laplace-torch did not run in {python}:\n{run.stderr[-2_000:]}")
    theirs = json.loads(run.stdout.splitlines()[-1])
    print(
        "| hessian | bias | largest difference of variances, relative | log marginal "
        "likelihood at precision 1: tfvn, torch | precision found: tfvn, torch | log "
        "marginal likelihood found: tfvn, torch | seconds to fit: tfvn, torch |\n"
        + "| --- " * 7
        + "|"
    )
    for use_bias in (True, False):
        head = keras.layers.Dense(CLASSES, activation="softmax", use_bias=use_bias)
        inputs = keras.Input((HIDDEN,))
        single = keras.Model(inputs, head(inputs))
        single.set_weights([kernel, bias] if use_bias else [kernel])
        for hessian in ("kron", "diag", "full"):
            mine = ours(tfvn, single, features, y, hessian)
            other = theirs[f"{hessian} {use_bias}"]
            variances = np.asarray(other["variances"])
            difference = np.max(np.abs(mine["variances"] / variances - 1.0))
            pairs = [
                f"{mine[name]:.{digits}f}, {other[name]:.{digits}f}"
                for name, digits in (
                    ("evidence", 4),
                    ("prior_precision", 4),
                    ("best", 4),
                    ("seconds", 2),
                )
            ]
            print(
                f"| {hessian} | {use_bias} | {difference:.1e} | {' | '.join(pairs)} |"
            )


if __name__ == "__main__":
    main()
