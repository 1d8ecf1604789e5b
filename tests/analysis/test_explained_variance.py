"""How much of the scales of a kernel a matrix of low rank explains."""

import keras
import numpy as np
import pytest
from keras import layers
from tying_models import OPS, mlp, scales, trained

import tfvn


class TestExplainedVariance:
    def test_against_numpy(self):
        model = mlp()
        explained = tfvn.explained_variance(model.layers[0])
        for name, matrix in (
            ("scale", scales(model.layers[0])),
            ("mean", model.layers[0].posterior.mean()),
        ):
            # The eigenvalues of the Gram matrix are the squares of the singular values.
            matrix = np.asarray(matrix, "float64")
            squares = np.linalg.eigvalsh(matrix.T @ matrix)[::-1]
            np.testing.assert_allclose(explained[name], squares / np.sum(matrix**2))

    @pytest.mark.parametrize("op", OPS)
    def test_of_tied_layers(self, op):
        arguments, shape, _ = OPS[op]
        layer = getattr(tfvn, f"KTied{op}")(**arguments)
        model = trained(tfvn.Sequential([keras.Input(shape), layer]))
        explained = tfvn.explained_variance(model.layers[0])
        assert explained["scale"][:2].sum() == pytest.approx(1.0)
        assert explained["mean"][:2].sum() < 1.0 - 1e-3
        assert explained["mean"].sum() == pytest.approx(1.0)

    def test_of_recurrent_kernels_and_biases(self):
        layer = tfvn.MeanFieldLSTM(3, bias_posterior="mean_field")
        layer.build((None, 2, 5))
        sizes = {
            weight: len(tfvn.explained_variance(layer, weight)["scale"])
            for weight in ("kernel", "recurrent_kernel", "bias")
        }
        assert sizes == {"kernel": 5, "recurrent_kernel": 3, "bias": 1}

    def test_without_means(self):
        layer = tfvn.VarianceDense(3)
        layer.build((None, 4))
        assert set(tfvn.explained_variance(layer)) == {"scale"}
        layer = tfvn.MeanFieldDense(3, kernel_initializer="zeros")
        layer.build((None, 4))
        assert np.isnan(tfvn.explained_variance(layer)["mean"]).all()

    @pytest.mark.parametrize(
        ("layer", "words"),
        [
            (lambda: layers.Dense(2), r"of type Dense, with \[\]"),
            (mlp, r"\['first', 'last'\]"),
            (lambda: tfvn.MeanFieldDense(2), "not built"),
            (lambda: "first", "Received: layer='first'"),
        ],
    )
    def test_refuses(self, layer, words):
        with pytest.raises(ValueError, match=words):
            tfvn.explained_variance(layer())

    def test_refuses_unknown_weights(self):
        model = mlp()
        with pytest.raises(ValueError, match="Received: weight='bias'"):
            tfvn.explained_variance(model.layers[0], "bias")
