"""Measures what the uncertainty of the quickstart's network is worth.

    python tools/quickstart_figures.py           # 3 seeds, some minutes
    python tools/quickstart_figures.py --again   # only the tables, from the saved figures

It trains the network of `tfvn quickstart`, and for comparison the same network without
batch normalization before its variance layer. It writes docs/measurements/quickstart.json, the tables of
docs/prediction.md, docs/choices.md and docs/pitfalls.md, and the picture of the README,
docs/images/uncertainty.png.
"""

import argparse
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
    from tfvn.cli import quickstart

DOCS = pathlib.Path(__file__).parent.parent / "docs"
SCORES = ("mutual_information", "entropy", "spread")
COUNTS = (1, 2, 5, 10, 20, 50, 100)
MANY = 1000
# Draws of which no probability spreads more than this agree.
SMALL = 0.02
OURS = "the quickstart's network"

Figures = dict[str, Any]


def image_sets(images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns test digits and what a network for digits has never seen.

    Args:
        images: Digits of shape `(rows, 8, 8, 1)`.
    """
    strange = quickstart.strange_images(images)
    covered = images.copy()
    covered[:, 4:] = 0.0
    return {
        "digits": images,
        "noise": strange["noise"],
        "inverted": strange["inverted"],
        "turned by a quarter": strange["turned"],
        "upside down": images[:, ::-1].copy(),
        "lower half covered": covered,
    }


def without_normalization() -> keras.Model:
    """Returns the network without batch normalization before its variance layer."""
    whole = quickstart.build_model()
    kept = [x for i, x in enumerate(whole.layers) if i != 2]
    model = keras.Sequential([keras.Input((8, 8, 1)), *kept])
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    return model


def trained(build: Callable[[], keras.Model], seed: int) -> keras.Model:
    """Returns a network that is trained as the quickstart trains it."""
    keras.utils.set_random_seed(seed)
    model = build()
    x, y = tfvn.datasets.load("digits", split="train")
    model.fit(x, y, batch_size=quickstart.BATCH_SIZE, epochs=40, verbose=0)
    return model


def scores(model: keras.Model, images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the answer of an ensemble, with the largest spread of a probability."""
    answer = tfvn.ensemble_predict(
        model, images, quickstart.NUM_SAMPLES, seed=1, verbose=0
    )
    return {**answer.to_dict(), "spread": answer.std.max(axis=-1)}


def measure(model: keras.Model) -> Figures:
    """Returns how well each score tells other images, and errors, from digits."""
    images, labels = tfvn.datasets.load("digits", split="test")
    answers = {name: scores(model, x) for name, x in image_sets(images).items()}
    usual = answers["digits"]
    is_wrong = usual["mean"].argmax(axis=-1) != labels
    figures: Figures = {"accuracy": float(1 - is_wrong.mean())}
    for name, answer in answers.items():
        figures[name] = {
            "mean_mutual_information": float(answer["mutual_information"].mean()),
            "no_spread": float((answer["spread"] < SMALL).mean()),
        }
        for score in SCORES:
            figures[name][score] = quickstart.auroc(usual[score], answer[score])
    figures["errors"] = {
        s: quickstart.auroc(usual[s][~is_wrong], usual[s][is_wrong]) for s in SCORES
    }
    return figures


def draws(model: keras.Model) -> list[Figures]:
    """Returns how far ensembles of few draws are from one of many."""
    images, labels = tfvn.datasets.load("digits", split="test")
    noise = image_sets(images)["noise"]
    truth = tfvn.ensemble_predict(model, images, MANY, seed=2, verbose=0).mean
    samples, of_noise = (
        tfvn.ensemble_predict(
            model, x, MANY, seed=3, return_samples=True, verbose=0
        ).samples
        for x in (images, noise)
    )
    rows = []
    for count in COUNTS:
        found = []
        for first in range(0, min(MANY, 20 * count), count):
            mean, information = _ensemble(samples[:, first : first + count])
            _, strange = _ensemble(of_noise[:, first : first + count])
            found.append(
                [
                    np.sqrt(np.mean((mean - truth) ** 2)),
                    np.mean(mean.argmax(-1) != truth.argmax(-1)),
                    np.mean(mean.argmax(-1) == labels),
                    -np.mean(np.log(mean[np.arange(len(labels)), labels] + 1e-12)),
                    information.mean(),
                    quickstart.auroc(information, strange),
                ]
            )
        names = ("error", "other_class", "accuracy", "nll", "information", "auroc")
        average = dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))
        rows.append({"draws": count, **average})
    return rows


def _ensemble(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean and the mutual information of draws on axis 1."""
    mean = samples.mean(axis=1)
    conditional = -(samples * np.log(samples + 1e-30)).sum(axis=-1).mean(axis=1)
    return mean, -(mean * np.log(mean + 1e-30)).sum(axis=-1) - conditional


def trust_table(found: list[Figures]) -> str:
    """Returns the table of what each score detects, as means over the seeds."""
    lines = [
        "| against test digits | AUROC, mutual information | AUROC, entropy | "
        "AUROC, spread | mean mutual information |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in [*image_sets(np.zeros((1, 8, 8, 1), "float32")), "errors"]:
        values = [figures[name] for figures in found]
        texts = ["", "", ""]
        if name != "digits":
            texts = [_mean_and_range([v[score] for v in values]) for score in SCORES]
        informations = [v.get("mean_mutual_information") for v in values]
        texts.append(f"{np.mean(informations):.2f}" if informations[0] else "")
        title = "digits that it gets wrong" if name == "errors" else name
        lines.append(f"| {title} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _mean_and_range(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def spread_table(found: dict[str, list[Figures]]) -> str:
    """Returns the shares of images on which all draws are equal."""
    sets = list(image_sets(np.zeros((1, 8, 8, 1), "float32")))
    lines = [f"| | accuracy | {' | '.join(sets)} |", "| --- " * (len(sets) + 2) + "|"]
    for name, rows in found.items():
        shares = [np.mean([row[s]["no_spread"] for row in rows]) for s in sets]
        accuracy = np.mean([row["accuracy"] for row in rows])
        cells = [f"{accuracy:.1%}", *(f"{share:.0%}" for share in shares)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draws_table(rows: list[list[Figures]]) -> str:
    """Returns the table of the number of draws, as means over the seeds."""
    lines = [
        "| draws | error of a probability | another class | accuracy | NLL | mean mutual "
        "information | AUROC, noise |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for same in zip(*rows, strict=True):
        mean = {key: np.mean([row[key] for row in same]) for key in same[0]}
        lines.append(
            f"| {same[0]['draws']} | {mean['error']:.4f} | {mean['other_class']:.2%} | "
            f"{mean['accuracy']:.2%} | {mean['nll']:.4f} | {mean['information']:.4f} | "
            f"{mean['auroc']:.3f} |"
        )
    return "\n".join(lines)


def write_between(page: str, name: str, text: str) -> None:
    """Replaces what is between two markers of a page."""
    begin, end = (
        f"<!-- quickstart_figures.py {x}: {name} -->" for x in ("begins", "ends")
    )
    path = DOCS / page
    before, found, rest = path.read_text("utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"docs/{page} has no markers {begin!r} and {end!r}.")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")


def picture(model: keras.Model, path: pathlib.Path) -> None:
    """Draws digits with the predictions of an ensemble, and their spread."""
    import matplotlib.pyplot as plt

    images, _ = tfvn.datasets.load("digits", split="test")
    sets = image_sets(images)
    answer = scores(model, images)
    unsure = np.argsort(answer["mutual_information"])[::-1][:2]
    chosen = [
        ("a digit", images[:1]),
        ("the digit of which\nit is least sure", images[unsure[:1]]),
        ("the second", images[unsure[1:]]),
        ("upside down", sets["upside down"][1:2]),
        ("lower half covered", sets["lower half covered"][2:3]),
        ("noise", sets["noise"][:1]),
    ]
    colours = {"text": "#222222", "bar": "#0077BB", "whisker": "#D55E00"}
    figure, axes = plt.subplots(
        2,
        len(chosen),
        figsize=(11, 3.7),
        height_ratios=(1.0, 1.1),
        layout="constrained",
        facecolor="#FAFAF7",
    )
    for column, (title, image) in enumerate(chosen):
        shown, bars = axes[:, column]
        found = tfvn.ensemble_predict(model, image, 50, seed=1, verbose=0)
        shown.imshow(image[0, :, :, 0], cmap="gray_r", vmin=0, vmax=1)
        shown.set_title(title, fontsize=10, color=colours["text"])
        shown.set_axis_off()
        bars.bar(range(10), found.mean[0], color=colours["bar"])
        bars.errorbar(
            range(10),
            found.mean[0],
            yerr=np.minimum(found.std[0], [found.mean[0], 1 - found.mean[0]]),
            fmt="none",
            ecolor=colours["whisker"],
            elinewidth=2,
        )
        bars.set(ylim=(0, 1.02), xticks=range(10), facecolor="#FAFAF7")
        bars.set_xlabel(
            f"mutual information {found.mutual_information[0]:.2f}",
            fontsize=9,
            color=colours["text"],
        )
        bars.tick_params(labelsize=7, colors=colours["text"])
        bars.spines[["top", "right"]].set_visible(False)
        if column:
            bars.set_yticks([])
    axes[1, 0].set_ylabel("probability", fontsize=9, color=colours["text"])
    figure.savefig(path, dpi=90)


def main() -> None:
    """Trains the networks, and writes tables and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--again", action="store_true", help="write the tables again, and train nothing"
    )
    options = parser.parse_args()
    saved = DOCS / "measurements" / "quickstart.json"
    if options.again:
        write_tables(json.loads(saved.read_text()))
        return
    networks = {
        OURS: quickstart.build_model,
        "without the first normalization": without_normalization,
    }
    found: dict[str, list[Figures]] = {name: [] for name in networks}
    models, of_draws = [], []
    for seed in range(options.seeds):
        for name, build in networks.items():
            model = trained(build, seed)
            found[name].append(measure(model))
            if name == OURS:
                models.append(model)
                of_draws.append(draws(model))
    figures = {"uncertainty": found, "draws": of_draws}
    saved.write_text(json.dumps(figures, indent=1) + "\n")
    write_tables(figures)
    picture(models[0], DOCS / "images" / "uncertainty.png")


def write_tables(figures: Figures) -> None:
    """Writes the three tables into their pages."""
    found = figures["uncertainty"]
    write_between("prediction.md", "trust", trust_table(found[OURS]))
    write_between("choices.md", "draws", draws_table(figures["draws"]))
    write_between("pitfalls.md", "spread", spread_table(found))


if __name__ == "__main__":
    main()
