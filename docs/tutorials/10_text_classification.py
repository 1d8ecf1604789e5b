"""Recurrent text classification

A GRU with k-tied weights reads short texts and says how sure it is. The texts are made by
a small grammar, so that this page needs no download; with `tfvn.datasets.load("imdb")` the
same lines classify film reviews.
"""

import keras
import numpy as np

import tfvn

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)

# %%
# ## Texts
#
# A word of praise or blame decides, and "not" before it turns it around.

GOOD = ["great", "moving", "clever", "warm"]
BAD = ["dull", "clumsy", "loud", "empty"]
FILLERS = [
    "the",
    "film",
    "a",
    "story",
    "with",
    "its",
    "actors",
    "and",
    "some",
    "music",
    "in",
    "every",
    "scene",
]


def text():
    """Returns a text and whether it praises."""
    is_good = rng.random() < 0.5
    is_turned = rng.random() < 0.3
    word = rng.choice(GOOD if is_good else BAD)
    words = list(rng.choice(FILLERS, size=rng.integers(4, 12)))
    place = rng.integers(0, len(words))
    words[place:place] = ["not", word] if is_turned else [word]
    return " ".join(words), int(is_good != is_turned)


texts, labels = zip(*(text() for _ in range(3000)), strict=True)
labels = np.array(labels)
print(texts[0], "->", labels[0])

# %%
# ## The network
#
# Padding is masked. The GRU samples its weights once per text, and adds its KL to the
# loss once, whatever the length.

vectorize = keras.layers.TextVectorization(output_sequence_length=14)
vectorize.adapt(texts)
x = np.asarray(vectorize(np.array(texts)))
model = tfvn.Sequential(
    [
        keras.Input((14,), dtype="int64"),
        keras.layers.Embedding(vectorize.vocabulary_size(), 16, mask_zero=True),
        tfvn.KTiedGRU(24, rank=2),
        tfvn.MeanFieldDense(1, activation="sigmoid"),
    ]
)
model.compile(
    keras.optimizers.Adam(1e-2),
    "binary_crossentropy",
    metrics=["accuracy"],
    kl_schedule=tfvn.schedules.LinearAnnealing(0.0, 0.5, epochs=6),
)
model.fit(x[:2500], labels[:2500, None], batch_size=64, epochs=8, verbose=0)

# %%
# ## How sure is it?

answer = tfvn.ensemble_predict(model, x[2500:], num_samples=30, seed=0)
right = (answer.mean[:, 0] > 0.5) == labels[2500:]
print(f"accuracy on 500 new texts: {right.mean():.1%}")

questions = [
    "a great story",
    "not a story with music but not dull",
    "the film",
    "great dull great dull",
]
answer = tfvn.ensemble_predict(
    model, np.asarray(vectorize(np.array(questions))), num_samples=200, seed=0
)
for question, p, spread in zip(
    questions, answer.mean[:, 0], answer.std[:, 0], strict=True
):
    print(f"{question:38} praise with probability {p:.2f} +- {spread:.2f}")

# %%
# The last two texts have no answer: one has no telling word, and the other contradicts
# itself. The network has seen no such texts. It leans to one side, and its draws hardly
# disagree: a small spread is no guarantee ([pitfalls](../pitfalls.md#prediction)).
