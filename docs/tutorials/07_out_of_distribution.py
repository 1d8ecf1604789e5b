"""Out-of-distribution detection

A classifier answers every question, also those that it cannot know. The entropy of its
prediction, and how far the draws of an ensemble disagree, help to tell such inputs apart.
Neither is a guarantee: this tutorial also shows where they fail.
"""

import keras
import numpy as np

import tfvn

(x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")

# %%
# ## Digits that the network has never seen
#
# The network learns the digits 0 to 7. The digits 8 and 9 are what it does not know.

known = y_train < 8
x_train, y_train = x_train[known], y_train[known]
x_known, y_known = x_test[y_test < 8], y_test[y_test < 8]
x_unknown = x_test[y_test >= 8]


def classifier(dense, **kwargs):
    """Returns a trained classifier made of one kind of dense layers."""
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            dense(128, activation="relu", **kwargs),
            dense(128, activation="relu", **kwargs),
            dense(8, activation="softmax", **kwargs),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        "sparse_categorical_crossentropy",
        kl_schedule=0.1,
        jit_compile=False,
    )
    model.fit(x_train, y_train, batch_size=64, epochs=30, verbose=0)
    return model


plain = classifier(keras.layers.Dense)
bayesian = classifier(tfvn.MeanFieldDense, scale_initializer=0.05)

# %%
# ## Scores
#
# The plain network has one score, the entropy of its prediction. The ensemble also has
# the mutual information between prediction and weights: how far the draws disagree. The
# AUROC is the probability that an unknown digit has a higher score than a known one.


def auroc(known_scores, unknown_scores):
    """Returns how well scores tell unknown examples from known ones."""
    metric = tfvn.metrics.OODAUROC()
    labels = np.repeat([0, 1], [len(known_scores), len(unknown_scores)])
    metric.update_state(labels, np.concatenate([known_scores, unknown_scores]))
    return float(metric.result())


def entropy(x):
    """Returns the entropy of the plain network's predictions."""
    p = plain.predict(x, verbose=0)
    return -(p * np.log(p + 1e-30)).sum(-1)


answers = [
    tfvn.ensemble_predict(bayesian, x, num_samples=50, seed=0)
    for x in (x_known, x_unknown)
]
accuracy = (answers[0].mean.argmax(-1) == y_known).mean()
print(f"accuracy on known digits: {accuracy:.1%} (ensemble)")
print(f"plain network, entropy:   {auroc(entropy(x_known), entropy(x_unknown)):.3f}")
print(f"ensemble, entropy:        {auroc(*(a.entropy for a in answers)):.3f}")
print(
    f"ensemble, disagreement:   {auroc(*(a.mutual_information for a in answers)):.3f}"
)

# %%

ax = tfvn.plots.entropy_histograms(
    {"known digits": answers[0].entropy, "unknown digits": answers[1].entropy}
)

# %%
# ## Answer less, err less
#
# If the network may decline to answer, which error rate is left among the examples of
# which it is most certain? Here every unknown digit counts as an error.

labels = np.concatenate([y_known, np.full(len(x_unknown), 9)])
both = np.concatenate([answers[0].mean, answers[1].mean])
scores = np.concatenate([answers[0].entropy, answers[1].entropy])
padded = np.pad(both, ((0, 0), (0, 2)))
ax = tfvn.plots.risk_coverage(labels, padded, scores)

# %%
# ## Where it fails
#
# Inputs that are very different from all digits need not have a high score: a network
# extrapolates. On images that are all black or all white, look before you trust.

for name, value in (("black", 0.0), ("grey", 0.5), ("white", 1.0)):
    image = np.full((1, 8, 8, 1), value, "float32")
    answer = tfvn.ensemble_predict(bayesian, image, num_samples=200, seed=0)
    print(
        f"{name}: the digit {answer.mean.argmax()} with probability "
        f"{answer.mean.max():.2f}, disagreement {answer.mutual_information[0]:.2f} nats"
    )
