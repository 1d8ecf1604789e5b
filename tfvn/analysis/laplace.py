"""The Laplace approximation of a model's last layer."""

from typing import Any

import keras
import numpy as np
from tensorflow_probability import distributions as tfd

from tfvn.analysis.copies import BayesianCopier, check_graph
from tfvn.analysis.curvature import STRUCTURES, Spectrum
from tfvn.analysis.evidence import Evidence
from tfvn.analysis.head_likelihoods import HeadLikelihood
from tfvn.analysis.heads import Head, find_head, find_likelihood
from tfvn.layers.core.joint_dense import JointDense
from tfvn.posteriors import DiagonalNormal, FullNormal, MatrixNormal
from tfvn.prediction.data import labelled_rows, length
from tfvn.prediction.rows import as_tensor
from tfvn.utils import private
from tfvn.utils.model_copies import ModelCopier
from tfvn.utils.validation import check_choice, check_count, check_number

_POSTERIORS = {"kron": MatrixNormal, "diag": DiagonalNormal, "full": FullNormal}

# The full matrix of more weights would not fit the memory of most machines.
LARGEST_FULL = 10_000


def last_layer_laplace(
    model: keras.Model,
    x: Any,
    y: Any = None,
    hessian: str = "kron",
    prior_precision: float | None = None,
    noise_scale: float | None = None,
    sample_weight: Any = None,
    outputs: Any = "auto",
    batch_size: int | None = 32,
    steps: int | None = None,
) -> keras.Model:
    """Makes the last dense layer of a trained model Bayesian, without training.

    The new layer has a Normal posterior around the trained kernel and bias. Its precision
    is the Gauss-Newton matrix of the training data, which is also their Fisher information,
    plus the precision of the prior `N(0, 1 / prior_precision)`. Kernel and bias have one
    joint posterior. It takes one pass over the data; layers such as dropout and batch
    normalization are in inference mode.

    With features `phi` of an example (the inputs of the layer, and a 1 for the bias) and
    the Hessian `H` of its negative log-likelihood with respect to the outputs of the
    kernel, the matrix is the sum of `outer(phi, phi) (x) H` over examples. `hessian`
    chooses how much of it is kept:

    - `"kron"`: the Kronecker product of the sum of `outer(phi, phi)` and the mean of `H`.
      The prior precision is added to the products of their eigenvalues.
    - `"diag"`: the diagonal alone, so that weights are independent.
    - `"full"`: all of it, for up to 10,000 weights.

    The new model predicts with `tfvn.ensemble_predict` and `tfvn.mean_predict` (which gives
    the predictions of the original), and can be saved and exported. The last layer is fixed;
    all other layers can be trained as before, but then call this function again, because the
    posterior belongs to the old features. The layer has the KL to its prior, with a
    `kl_weight` of 0, so that the loss does not change.

    Args:
        model: A trained model, sequential or functional, with one output that comes from a
            `keras.layers.Dense`. An `Activation`, a `Softmax` or a
            `tfvn.layers.LearnedScale` may follow it. It does not change.
        x: Training inputs, as in `keras.Model.fit`: arrays, or a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator of batches `(inputs, targets)` or
            `(inputs, targets, weights)`.
        y: Training targets, unless they are in `x`.
        hessian: `"kron"`, `"diag"` or `"full"`.
        prior_precision: Precision of the prior of every weight. `None` chooses the one with
            the largest marginal likelihood.
        noise_scale: For a regression with a squared error, the standard deviation of the
            targets around the outputs. `None` chooses the one with the largest marginal
            likelihood.
        sample_weight: Weights of the examples, or `None`. An example of weight 2 counts as
            two.
        outputs: What the model's outputs are, as in `tfvn.ensemble_predict`. `"auto"` infers
            it from the last activation and the loss.
        batch_size: Number of rows at a time; `None` is 32, as in Keras.
        steps: Number of batches to take from data without end, as in
            `tfvn.ensemble_predict`.

    Returns:
        A `tfvn.Sequential` or `tfvn.Model`, compiled as the original is. The posterior of
        its new layer has the attributes `prior_precision`, `log_marginal_likelihood` (in
        nats) and, for a regression with a squared error, `noise_scale`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(100, 4))
    >>> y = (x[:, 0] > 0).astype(int)
    >>> model = keras.Sequential([keras.Input((4,))])
    >>> model.add(keras.layers.Dense(2, activation="softmax"))
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> history = model.fit(x, y, verbose=0)
    >>> bayesian = tfvn.last_layer_laplace(model, x, y)
    >>> tfvn.ensemble_predict(bayesian, x).mutual_information.shape
    (100,)
    >>> bool(bayesian.layers[-1].posterior.prior_precision > 0)
    True

    Reference:

    - [Daxberger et al., 2021](https://arxiv.org/abs/2106.14806), sections 2 and 3
    - [Ritter et al., 2018](https://openreview.net/forum?id=Skdvd2xAZ), section 3, for the
      Kronecker product
    - [Immer et al., 2021](https://arxiv.org/abs/2104.04975), equation 6, for the marginal
      likelihood
    """
    check_choice("hessian", hessian, STRUCTURES)
    check_number("prior_precision", prior_precision, above=0, or_none=True)
    batch_size = 32 if batch_size is None else check_count("batch_size", batch_size)
    y, sample_weight = map(_as_array, (y, sample_weight))
    rows = labelled_rows(model, x, y, sample_weight, steps)
    check_graph(model)
    head = find_head(model)
    likelihood = find_likelihood(model, head, outputs, noise_scale)
    weights = head.weights()
    if hessian == "full" and weights.size > LARGEST_FULL:
        raise ValueError(
            f"The full matrix is for up to {LARGEST_FULL:,} weights; use "
            "`hessian='kron'`, which keeps the correlations within rows and within "
            f"columns. Received: hessian='full' for {weights.size:,} weights"
        )
    rows.limit(batch_size)
    scan = _Scan(head, likelihood, weights, STRUCTURES[hessian](*weights.shape))
    features = _FeatureCopier(head).copy(model)
    for batch in rows.batches(batch_size):
        scan.add(features, *batch)
    spectrum, posterior, variances = scan.fit(_POSTERIORS[hessian], prior_precision)
    copy = _LaplaceCopier(head, posterior, weights, variances, spectrum).copy(model)
    # `evaluate` divides the KL by the number of examples, which the original may not know.
    copy.training_state.size.assign(scan.rows)
    return copy


class _Scan:
    """One pass over the training data.

    Args:
        head: The last layer.
        likelihood: The likelihood of the targets.
        weights: Kernel and bias of the layer.
        curvature: An empty sum of curvatures.
    """

    def __init__(
        self, head: Head, likelihood: HeadLikelihood, weights: Any, curvature: Any
    ):
        self._has_bias = head.dense.use_bias
        self._likelihood, self._weights = likelihood, weights
        self._curvature = curvature
        self.rows = 0
        self._log_likelihood = self._squares = self._count = 0.0

    def add(self, features_of: keras.Model, x: Any, y: Any, sample_weight: Any) -> None:
        """Adds a batch.

        Args:
            features_of: A model that returns the inputs of the layer.
            x: Inputs of the model.
            y: Their targets.
            sample_weight: Weights of the examples, or `None`.
        """
        inputs = keras.tree.map_structure(as_tensor, x)
        features, mask = _call(features_of, inputs)
        shape = (*features.shape[:-1], self._weights.shape[1])
        factors = _checked_weights(sample_weight, mask, shape[:-1])
        targets = self._likelihood.checked(np.asarray(_one(y)), shape)
        features = features.reshape(-1, features.shape[-1])
        if self._has_bias:
            features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
        outputs = features @ self._weights
        self._curvature.add(features, self._likelihood.hessians(outputs), factors)
        if self._likelihood.noise_is_unknown:
            squares = np.square(targets - outputs).sum(axis=-1)
            self._squares += factors @ squares
            self._count += factors.sum() * outputs.shape[-1]
        else:
            self._log_likelihood += factors @ self._likelihood.log_likelihood(
                outputs, targets
            )
        self.rows += length(x)

    def fit(self, posterior_class: type, prior_precision: float | None) -> Any:
        """Returns the spectrum, the posterior, and the variances along eigenvectors."""
        spectrum = self._curvature.spectrum()
        evidence = Evidence(
            spectrum.values,
            float(np.sum(np.square(self._weights))),
            self._log_likelihood,
            self._squares,
            self._count,
        )
        self._check(evidence, prior_precision)
        unknown = self._likelihood.noise_is_unknown
        prior, noise = evidence.maximize(prior_precision, None if unknown else 1.0)
        posterior = posterior_class(
            prior_precision=prior,
            log_marginal_likelihood=evidence.value(prior, noise),
            noise_scale=noise**-0.5 if unknown else self._likelihood.known_scale,
        )
        return spectrum, posterior, 1.0 / (noise * spectrum.values + prior)

    def _check(self, evidence: Evidence, prior_precision: float | None) -> None:
        """Raises if no finite precision maximises the marginal likelihood."""
        known = evidence.eigenvalues.max(initial=0.0) > 0.0
        if not known:
            raise ValueError(
                "The training data must have examples with a weight above 0 and features "
                "other than 0; they say nothing about the last layer. "
                f"Received: {self.rows} examples"
            )
        if prior_precision is None and evidence.squared_norm == 0.0:
            raise ValueError(
                "All weights of the last layer are 0, for which no prior precision has "
                "the largest marginal likelihood; train the model first or pass "
                "`prior_precision`. Received: prior_precision=None"
            )
        if self._likelihood.noise_is_unknown and evidence.squares == 0.0:
            raise ValueError(
                "The model predicts every target exactly, for which no noise has the "
                "largest marginal likelihood; pass `noise_scale`. "
                "Received: noise_scale=None"
            )


class _FeatureCopier(ModelCopier):
    """Copies models up to the inputs of their last dense layer."""

    def __init__(self, head: Head):
        self._removed = (head.dense, *head.after)

    def replaces(self, layer: keras.Layer) -> bool:
        return any(layer is removed for removed in self._removed)

    def new_layer(self, layer: Any) -> keras.Layer:
        return keras.layers.Identity(name=layer.name, dtype=layer.dtype_policy.name)

    def fill(self, layer: Any, new: Any) -> None:
        """Does nothing: an identity has no variables."""


class _LaplaceCopier(BayesianCopier):
    """Copies models with a posterior of their last dense layer."""

    def __init__(
        self,
        head: Head,
        posterior: Any,
        weights: np.ndarray,
        variances: np.ndarray,
        spectrum: Spectrum,
    ):
        self._dense, self._posterior = head.dense, posterior
        self._weights, self._variances = weights, variances
        self._spectrum = spectrum

    def replaces(self, layer: keras.Layer) -> bool:
        return layer is self._dense

    def new_layer(self, layer: Any) -> keras.Layer:
        # Nothing of the layer is trained, so that it has no regularizers or constraints.
        return JointDense(
            layer.units,
            activation=layer.activation,
            use_bias=layer.use_bias,
            activity_regularizer=layer.activity_regularizer,
            posterior=self._posterior,
            prior=tfd.Normal(0.0, self._posterior.prior_precision**-0.5),
            kl_weight=0.0,
            name=layer.name,
            dtype=layer.dtype_policy,
        )

    def fill(self, layer: Any, new: Any) -> None:
        posterior, spectrum = new.posterior, self._spectrum
        posterior.mean_variable.assign(self._weights)
        posterior.scale_variable.assign(np.sqrt(self._variances))
        if spectrum.left is not None:
            posterior.left_variable.assign(spectrum.left)
            posterior.right_variable.assign(spectrum.right)


def _call(model: keras.Model, inputs: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns the outputs of a model in float64, and their mask."""
    outputs = model(inputs, training=False)
    mask = private.get_keras_mask(outputs)
    features = keras.ops.convert_to_numpy(outputs).astype("float64")
    if not np.all(np.isfinite(features)):
        raise ValueError(
            "The inputs of the last layer must be finite. Received: values that are not, "
            "for some rows of `x`"
        )
    return features, None if mask is None else keras.ops.convert_to_numpy(mask)


def _checked_weights(
    sample_weight: Any, mask: np.ndarray | None, shape: tuple[int, ...]
) -> np.ndarray:
    """Returns the weight of each output vector, flat."""
    factors = np.ones(shape)
    if sample_weight is not None:
        given = np.asarray(_one(sample_weight), "float64")
        if given.ndim == len(shape) + 1 and given.shape[-1] == 1:
            given = given[..., 0]
        fits = given.shape == shape[: given.ndim] and given.ndim > 0
        if not fits or not np.all(np.isfinite(given)) or np.any(given < 0):
            raise ValueError(
                "Argument `sample_weight` must have a number of at least 0 for each "
                f"example, of shape {shape[:1]}"
                + (f" or {shape}" if len(shape) > 1 else "")
                + f" for these rows. Received: sample_weight of shape {given.shape}"
            )
        factors *= given.reshape(given.shape + (1,) * (len(shape) - given.ndim))
    if mask is not None:
        factors *= mask
    return factors.ravel()


def _one(part: Any) -> Any:
    """Returns the only array of a structure of targets or weights."""
    flat = keras.tree.flatten(part)
    if len(flat) != 1 or flat[0] is None:
        raise ValueError(
            "Arguments `y` and `sample_weight` must be one array each, because the model "
            f"has one output. Received: {len(flat)} arrays"
        )
    return flat[0]


def _as_array(values: Any) -> Any:
    # A list of numbers is an array here, and no structure of inputs.
    return np.asarray(values) if isinstance(values, list | tuple) else values
