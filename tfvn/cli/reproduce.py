"""`tfvn reproduce`: runs an experiment of a paper."""

import contextlib
import pathlib

from tfvn import experiments
from tfvn.cli.shared import mistakes
from tfvn.experiments import runner


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
    folder = runner.folder_of(output, name, form)
    with contextlib.ExitStack() as stack:
        with mistakes():
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


def _say(line: str) -> None:
    print(line, flush=True)
