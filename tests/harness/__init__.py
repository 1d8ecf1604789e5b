"""The test harness: what every public layer has to pass, and the combinations.

`run_layer_test` puts one layer with one set of arguments through everything a Keras
layer is asked to do. `pairwise` and `cross_product` make the arguments out of the
support tables, so that a new row is tested by being there.
"""

from harness.cases import Case, in_rnn, own_config, owner, reset_noise
from harness.combinations import (
    cross_product,
    is_supported,
    label,
    law_of,
    make_posterior,
    make_prior,
    pairs_of,
    pairwise,
    posterior_labels,
    table_factors,
    to_arguments,
)
from harness.expected_kl import adds_kl, part_adds_kl, random_parts
from harness.layer_checks import (
    check_config,
    check_construction,
    check_counts,
    check_gradients,
    check_saving,
    check_shapes,
)
from harness.regimes import (
    ALL_REGIMES,
    REGIME_CHECKS,
    REGIMES,
    check_mirrored,
    no_likelihood,
    two_replicas,
)
from harness.twins import NOT_TAKEN, make_twin, public_layers, twin_arguments, twin_of

__all__ = [
    "ALL_REGIMES",
    "NOT_TAKEN",
    "REGIMES",
    "REGIME_CHECKS",
    "Case",
    "adds_kl",
    "check_config",
    "check_construction",
    "check_counts",
    "check_gradients",
    "check_mirrored",
    "check_saving",
    "check_shapes",
    "cross_product",
    "in_rnn",
    "is_supported",
    "label",
    "law_of",
    "make_posterior",
    "make_prior",
    "make_twin",
    "no_likelihood",
    "own_config",
    "owner",
    "pairs_of",
    "pairwise",
    "part_adds_kl",
    "posterior_labels",
    "public_layers",
    "random_parts",
    "reset_noise",
    "run_layer_test",
    "table_factors",
    "to_arguments",
    "twin_arguments",
    "twin_of",
    "two_replicas",
]


def run_layer_test(layer_class, init_kwargs, input_shape, regimes=ALL_REGIMES):
    """Puts a layer through everything that a Keras layer is asked to do.

    Args:
        layer_class: The class of the layer.
        init_kwargs: The arguments to make it with. `kl_weight` and `seed` have
            values of their own where they are left out.
        input_shape: Shape of the inputs, the batch included.
        regimes: In which of `ALL_REGIMES` the layer is trained and used.
    """
    case = Case(layer_class, init_kwargs, input_shape)
    check_construction(case)
    check_config(case)
    check_shapes(case)
    check_counts(case)
    check_saving(case)
    for regime in regimes:
        REGIME_CHECKS[regime](case)
