"""The phase transition: information moves from the means of weights to their variances.

LeNet-5 on MNIST whose first dense layer has Gaussian dropout with one alpha. The KL pushes
alpha up. At some point the accuracy with mean weights falls to chance, while the ensemble
stays accurate, even with all means set to zero. The same happens with three priors.
"""

from typing import Any

import tfvn
from tfvn.experiments.classifiers import measure
from tfvn.experiments.experiment import (
    Claim,
    Experiment,
    Piece,
    Results,
    Save,
    Table,
    judged,
    number,
    percent,
)
from tfvn.experiments.lenet5 import (
    FAST_ALPHA,
    PAPER_ALPHA,
    PAPER_LENGTH,
    QUICK,
    SETTINGS,
    compile_lenet5,
    lenet5,
    mnist,
)
from tfvn.experiments.training import train

# The prior of each run, and whether it sees all training images.
RUNS = {
    "log-uniform": ("log_uniform", True),
    "log-uniform, fewer images": ("log_uniform", False),
    "Student-t, fewer images": ("student_t", False),
    "ARD, fewer images": ("ard", False),
}
PRIORS = tuple(RUNS)[1:]
FIGURES = ("accuracy_mean", "accuracy_one_sample", "accuracy_ensemble")


def run(piece: Piece) -> dict[str, Any]:
    """Trains one network, and measures it after every epoch."""
    data, test = mnist(piece.settings)
    prior, has_all_images = RUNS[piece.configuration]
    if not has_all_images:
        x, y = data
        count = piece.settings["fewer_images"]
        data = x[:count], y[:count]
    layer = tfvn.GaussianDropoutDense(
        500, alpha="layer", prior=prior, use_bias=False, name="dense1"
    )
    model = lenet5(dense1=layer)
    compile_lenet5(model, data, piece, piece.settings["scale_rate"])
    # The curves use some of the test images, the final figures all of them.
    watched = tuple(part[: piece.settings["watched_images"]] for part in test)
    watch = tfvn.callbacks.PhaseTransition(watched, num_samples=20, batch_size=200)
    history = train(model, data, piece, [watch])
    x, y = test
    zero_mean = tfvn.zero_mean_predict(model, x, 20, batch_size=200, seed=1, verbose=0)
    kept = (*FIGURES, "accuracy_zero_mean", "log_alpha_dense1")
    return {
        "accuracy": measure(model, test),
        "zero_mean": float((zero_mean.mean.argmax(-1) == y).mean()),
        "log_alpha": history["log_alpha_dense1"][-1],
        "history": {name: history[name] for name in kept},
    }


def judge(results: Results) -> list[Claim]:
    """Compares with figures 3 and 8."""
    means = {n: results.mean(n, "accuracy", "moving", "mean_weights") for n in RUNS}
    main = "log-uniform"
    ensemble = results.mean(main, "accuracy", "moving", "ensemble")
    zero_mean = results.mean(main, "zero_mean")
    alphas = {n: results.mean(n, "log_alpha") for n in PRIORS}
    distance = abs(ensemble - zero_mean)
    return [
        Claim(
            "The accuracy of the mean weights falls to chance",
            "chance",
            f"mean weights {percent(means[main])}, ensemble {percent(ensemble)}",
            judged(means[main] <= 0.2, means[main] <= 0.5, [means[main], ensemble]),
        ),
        Claim(
            "The ensemble needs no means",
            "the two curves meet",
            f"means set to zero {percent(zero_mean)}, ensemble {percent(ensemble)}",
            judged(distance <= 0.003, distance <= 0.01, [distance]),
        ),
        Claim(
            "All three priors lead to variance layers",
            "all three converge, Student-t more slowly",
            ", ".join(
                f"{n.split(',')[0]}: log alpha {number(alphas[n])}, mean weights "
                f"{percent(means[n])}"
                for n in PRIORS
            ),
            judged(
                max(means[n] for n in PRIORS) <= 0.2,
                min(alphas.values()) >= 2,
                [*alphas.values(), *(means[n] for n in PRIORS)],
            ),
        ),
    ]


def table(results: Results) -> Table:
    """Returns the final figures of each run."""
    keys = ("mean_weights", "one_sample", "ensemble")
    rows = [
        [
            name,
            number(results.mean(name, "log_alpha")),
            *(percent(results.mean(name, "accuracy", "moving", key)) for key in keys),
            percent(results.mean(name, "zero_mean")),
        ]
        for name in RUNS
    ]
    header = ["prior", "log alpha", "mean weights", "1 sample", "20 samples"]
    return Table([*header, "20 samples, means zero"], rows)


def draw(results: Results, save: Save) -> None:
    """Draws figure 3, and the transitions of the three priors (figure 8)."""
    history = results.first("log-uniform", "history")
    save("transition", tfvn.plots.phase_transition(history))
    for key, name in (
        ("accuracy_mean", "accuracy with mean weights"),
        ("log_alpha_dense1", "log alpha"),
    ):
        runs = {n.split(",")[0]: results.first(n, "history", key) for n in PRIORS}
        curves = {prior: values for prior, values in runs.items() if values}
        save(f"priors_{key}", tfvn.plots.curves(curves, ylabel=name))


EXPERIMENT = Experiment(
    name="phase-transition",
    paper="Neklyudov et al. (2019), figures 3 and 8",
    claim="With one alpha for a layer, information moves from the means of its weights to "
    "their variances, with any of three priors.",
    data=("mnist",),
    minutes=30,
    settings={
        "default": {
            **SETTINGS,
            **FAST_ALPHA,
            "epochs": 20,
            "fewer_images": 20_000,
            "watched_images": 2_000,
        },
        "quick": {
            **QUICK,
            "fewer_images": 200,
            "watched_images": 100,
            "configurations": ["log-uniform", "Student-t, fewer images"],
        },
        "full": {
            **PAPER_LENGTH,
            **PAPER_ALPHA,
            "fewer_images": 60_000,
        },
    },
    configurations=tuple(RUNS),
    run=run,
    judge=judge,
    table=table,
    draw=draw,
    notes="The paper's figures show a VGG-like network on CIFAR-10; here it is LeNet-5 on "
    "MNIST. Figures have batch normalization with its moving statistics. Log alpha has a "
    "learning rate of 3e-2.",
)
