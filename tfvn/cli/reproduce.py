"""`tfvn reproduce`: runs an experiment of a paper."""

import contextlib
import importlib.util
import pathlib

from _tfvn_command import CommandError
from tfvn import experiments
from tfvn.cli.shared import mistakes
from tfvn.experiments import runner
from tfvn.utils import data_places


def run(
    name: str,
    form: str = "default",
    seeds: int | None = None,
    resume: bool = False,
    output: pathlib.Path = pathlib.Path("results"),
) -> None:
    """Runs an experiment, and prints its progress and what came out.

    Args:
        name: The name of the experiment.
        form: `"quick"`, `"default"` or `"full"`.
        seeds: Number of seeds; `None` is that of the form.
        resume: Whether to continue an interrupted run.
        output: The directory of all results.
    """
    experiment = experiments.get(name)
    _check_extras(experiment.data)
    folder = runner.folder_of(output, name, form)
    with contextlib.ExitStack() as stack:
        with mistakes():
            for data in experiment.data:
                data_places.require(data)
            stack.enter_context(runner.locked(folder))
            runner.prepare(experiment, form, seeds, resume, output)
        _say(f"{experiment.paper}\n{experiment.claim}\n")
        try:
            runner.run(experiment, form, folder, _say)
        except KeyboardInterrupt:
            _say(
                f"\nInterrupted. The same command with --resume continues in {folder}."
            )
            raise


def _check_extras(data: tuple[str, ...]) -> None:
    """Raises if a library that an experiment needs is not installed."""
    extras = {"matplotlib": ("their figures", "plots")}
    if set(data) - {"imdb"}:  # Keras reads the reviews
        extras["tensorflow_datasets"] = ("their data", "datasets")
    for module, (what, extra) in extras.items():
        if importlib.util.find_spec(module) is None:
            raise CommandError(
                f'experiments need {module} for {what}: pip install "tfvn[{extra}]"'
            )


def _say(line: str) -> None:
    print(line, flush=True)
