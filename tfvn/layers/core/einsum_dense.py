"""Dense layers in einsum notation with a random kernel."""

import re
import string
from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.constructors import Preset, given
from tfvn.layers.feed_forward import StochasticLayer
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

Tensor = Any

# Axes of inputs, of the kernel, and of the output.
_EQUATION = re.compile(r"[^,>-]+,[^,>-]+->[^,>-]+")


@keras.saving.register_keras_serializable("tfvn")
class EinsumDense(StochasticLayer, keras.layers.EinsumDense):
    """A `keras.layers.EinsumDense` whose kernel is a distribution.

    As a matrix, the kernel has a row for each entry of the axes it shares with the input,
    and a column for each entry of the axes that only the output has. The layer refuses an
    equation without such an axis.

    Args:
        equation: Einsum equation, for example `"abc,cd->abd"` or `"...x,xy->...y"`.
        output_shape: Shape of the output without the batch and without the axes of an
            ellipsis.
        posterior: See `tfvn.layers.Dense`, also for `prior`, `estimator`, `kl_method`,
            `kl_weight`, `bias_posterior`, `bias_prior` and `seed`.
        **kwargs: Every other argument of `keras.layers.EinsumDense`.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.layers.EinsumDense(
    ...     "btd,dnh->btnh", output_shape=(None, 2, 3), bias_axes="nh", kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 2, 3])
    """

    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        posterior: Any = "mean_field",
        prior: Any = "auto",
        estimator: Any = None,
        kl_method: str = "auto",
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ):
        if not isinstance(equation, str) or not _EQUATION.fullmatch(equation):
            raise ValueError(
                "Argument `equation` must have the axes of the inputs, of the kernel and of "
                "the output, such as '...x,xy->...y'. Received: "
                f"equation={equation!r}"
            )
        super().__init__(**given(locals()))
        inputs, kernel, outputs = re.split(",|->", self.equation)
        if not (set(kernel) & set(outputs)) - set(inputs):
            raise ValueError(
                "In `equation`, the kernel must have an axis that the output has and "
                "the input has not, such as `y` in '...x,xy->...y'. Received: "
                f"equation={self.equation!r}"
            )
        summed = set(inputs) - set(kernel) - set(outputs) - {"."}
        if summed:
            # Entries along these axes share a weight, so their noise adds up before it
            # is squared.
            raise ValueError(
                f"The axes {sorted(summed)} of the inputs are neither in the kernel "
                "nor in the output; sum over them before this layer. Received: "
                f"equation={self.equation!r}"
            )

    @property
    def has_bias(self) -> bool:
        return self.bias_axes is not None

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        self._inputs, self._kernel_labels, self._outputs = _explicit(
            self.equation, len(input_shape)
        )
        sizes = self._sizes(input_shape)
        missing = [label for label in self._kernel_labels if sizes[label] is None]
        if missing:
            raise ValueError(
                f"The kernel axes {missing} of `equation` must have a defined size, in "
                "the inputs or in `output_shape`. Received: "
                f"equation={self.equation!r} and input_shape={input_shape}"
            )
        self.input_spec = keras.InputSpec(ndim=len(input_shape))
        self._rows = [label for label in self._kernel_labels if label in self._inputs]
        self._columns = [
            label for label in self._kernel_labels if label not in self._inputs
        ]
        self._column_sizes = [sizes[label] for label in self._columns]
        self.input_axes = tuple(self._inputs.index(label) for label in self._rows)
        self.output_axes = tuple(self._outputs.index(label) for label in self._columns)
        return KernelSpec(
            tuple(sizes[label] for label in self._kernel_labels),
            tuple(self._kernel_labels.index(label) for label in self._columns),
        )

    def compute_bias_shape(
        self, input_shape: tuple[int | None, ...], spec: KernelSpec
    ) -> tuple[int, ...]:
        if not self.has_bias:
            return ()
        sizes = self._sizes(input_shape)
        if any(sizes.get(label) is None for label in self.bias_axes):
            raise ValueError(
                "Argument `bias_axes` must name axes of the output that have a defined "
                f"size. Received: bias_axes={self.bias_axes!r} with "
                f"equation={self.equation!r} and input_shape={input_shape}"
            )
        # The shape starts at the first axis with a bias; axes without a bias broadcast.
        first = min(self._outputs.index(label) for label in self.bias_axes)
        return tuple(
            sizes[label] if label in self.bias_axes else 1
            for label in self._outputs[first:]
        )

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return keras.ops.einsum(self.equation, inputs, kernel)

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        # The first product replaces the columns by one axis of factors; the second
        # restores them.
        factor = _unused(self._inputs + self._kernel_labels + self._outputs, 1)
        rows, columns = "".join(self._rows), "".join(self._columns)
        thin = "".join(label for label in self._outputs if label not in columns)
        sizes = dict(zip(self._inputs, inputs.shape, strict=True))
        left = keras.ops.reshape(left, [*(sizes[label] for label in rows), -1])
        right = keras.ops.reshape(right, [-1, *self._column_sizes])
        outputs = keras.ops.einsum(
            f"{self._inputs},{rows}{factor}->{thin}{factor}", inputs, left
        )
        return keras.ops.einsum(
            f"{thin}{factor},{factor}{columns}->{self._outputs}", outputs, right
        )

    def _sizes(self, input_shape: tuple[int | None, ...]) -> dict[str, Any]:
        """Returns the size of each axis by its label."""
        output_shape = self.compute_output_shape(input_shape)
        sizes: dict[str, Any] = dict(zip(self._outputs, output_shape, strict=True))
        return {**sizes, **dict(zip(self._inputs, input_shape, strict=True))}


def _explicit(equation: str, rank: int) -> list[str]:
    """Returns the labels of inputs, kernel and outputs, with no ellipsis."""
    inputs, kernel, outputs = re.split(",|->", equation)
    elided = _unused(equation, rank - len(inputs.replace("...", "")))
    return [labels.replace("...", elided) for labels in (inputs, kernel, outputs)]


def _unused(labels: str, count: int) -> str:
    """Returns `count` labels that are not among `labels`."""
    free = [letter for letter in string.ascii_letters if letter not in labels]
    return "".join(free[: max(count, 0)])


class VarianceEinsumDense(Preset, EinsumDense, posterior=Variance):
    """A dense einsum layer whose weights have mean zero and learned variances.

    `tfvn.VarianceDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        noise: Distribution of the weights: `"gaussian"`, `"bernoulli"` or `"uniform"`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial scales.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.VarianceEinsumDense("abc,cd->abd", output_shape=(None, 3))
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """


class GaussianDropoutEinsumDense(Preset, EinsumDense, posterior=GaussianDropout):
    """A dense einsum layer with learned Gaussian noise on its weights.

    `tfvn.GaussianDropoutDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        alpha: Which weights share a dropout rate: `"layer"`, `"neuron"` or `"weight"`.
        parameterization: `"multiplicative"` or `"additive"`.
        initial_log_alpha: Initial value of log alpha.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """


class MeanFieldEinsumDense(Preset, EinsumDense, posterior=MeanField):
    """A dense einsum layer whose weights are independent Normals.

    `tfvn.MeanFieldDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        scale_initializer: Initial standard deviations: a positive number or a Keras
            initializer.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """


class KTiedEinsumDense(Preset, EinsumDense, posterior=KTied):
    """A dense einsum layer whose weights are Normals with scales of low rank.

    `tfvn.KTiedDense` explains such layers.

    Args:
        equation: Einsum equation, `"...x,xy->...y"` for instance.
        output_shape: Shape of the output without the batch.
        rank: Rank of the standard deviations; `None` is 2, or less for a small kernel.
        kl_weight: Factor of the KL in the loss; with a loss that is a mean over
            examples, `1 / number_of_training_examples`.
        **kwargs: Every other argument of `tfvn.layers.EinsumDense` and of
            `keras.layers.EinsumDense`; `kernel_initializer` gives the initial means.

    Input shape:
        As `keras.layers.EinsumDense`.

    Output shape:
        As `keras.layers.EinsumDense`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.KTiedEinsumDense(
    ...     "abc,cd->abd", output_shape=(None, 3), kl_weight=1e-3
    ... )
    >>> layer(np.ones((2, 5, 4))).shape
    TensorShape([2, 5, 3])

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655)
    """
