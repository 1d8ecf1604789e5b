"""What the support tables say of a layer's KL, and of the gradients that follow."""

import tfvn
from tfvn import support
from tfvn.layers import StochasticRNNCell


def random_parts(layer):
    """Returns the posterior and the prior of each random part of a layer."""
    kernel_prior = layer.prior
    if isinstance(kernel_prior, str) and kernel_prior == "auto":
        kernel_prior = layer.posterior.default_prior
    parts = [(layer.posterior, kernel_prior)]
    if isinstance(layer, StochasticRNNCell):
        parts.append((layer.recurrent_posterior, kernel_prior))
    if layer.bias_posterior is not None:
        same = isinstance(layer.bias_prior, str) and layer.bias_prior == "auto"
        prior = kernel_prior if same else layer.bias_prior
        parts.append((layer.bias_posterior, prior))
    return parts


def part_adds_kl(posterior, prior):
    """Whether the KL of a part depends on its variables."""
    row = tfvn.priors.row(prior)
    if posterior.zero_mean and row in support.SCALE_FREE_PRIORS:
        return False
    cell = support.lookup(support.PRIORS, row, posterior.law)
    return cell not in (support.CONSTANT, support.NO_KL)


def adds_kl(layer):
    """Whether a layer adds a KL to the loss."""
    return any(part_adds_kl(*part) for part in random_parts(layer))


def estimates_kl(layer):
    """Whether the KL of a layer is random."""
    if layer.kl_method == "monte_carlo":
        return adds_kl(layer)
    return any(
        support.lookup(support.PRIORS, tfvn.priors.row(prior), posterior.law)
        == support.MONTE_CARLO
        for posterior, prior in random_parts(layer)
    )


def variables_without_gradient(layer):
    """Returns the variables that the loss does not depend on."""
    if layer.estimator.alias != "mean":
        return []
    return [
        variable
        for posterior, prior in random_parts(layer)
        if not part_adds_kl(posterior, prior)
        for variable in posterior.variable_groups["scale"]
    ]
