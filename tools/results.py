"""Writes docs/RESULTS.md from the results of experiments in docs/results.

    python tools/results.py                      # writes the page again
    python tools/results.py results/toy ...      # adds these runs, then writes the page

A run is the folder that `tfvn reproduce` has written, of the default or the full form. Its
figures are copied to docs/results/NAME.json, and its images beside it. Only what is between
the two marks of the page is written; the rest is by hand.
"""

import argparse
import json
import pathlib
import shutil
from typing import Any

from tfvn.cli.arguments import reproduce as arguments

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs" / "RESULTS.md"
RESULTS = ROOT / "docs" / "results"
START = "<!-- Written by tools/results.py from docs/results; do not edit. -->"
END = "<!-- End of what tools/results.py writes. -->"


def add(folder: pathlib.Path) -> None:
    """Copies the figures and images of a run to the documentation."""
    result = json.loads((folder / "result.json").read_text("utf-8"))
    if result["form"] == "quick":
        raise SystemExit(f"A quick run has no results to publish. Received: {folder}")
    RESULTS.mkdir(exist_ok=True)
    name = result["experiment"]
    for old in RESULTS.glob(f"{name}.*"):
        old.unlink()
    renamed = []
    for image in result["images"]:
        renamed.append(f"{name}.{image}")
        shutil.copy(folder / image, RESULTS / renamed[-1])
    result["images"] = renamed
    text = json.dumps(result, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, "utf-8")


def load() -> dict[str, Any]:
    """Returns the results in docs/results by the name of their experiment."""
    files = sorted(RESULTS.glob("*.json"))
    return {file.stem: json.loads(file.read_text("utf-8")) for file in files}


def render(results: dict[str, Any]) -> str:
    """Returns the written part of the page.

    Args:
        results: The results by name.
    """
    known = arguments.known_experiments()
    lines = [
        "## Experiments of papers",
        "",
        "Each row is a command, `tfvn reproduce NAME` ([how to run it](reproducing.md)). A "
        "claim is *reproduced*, reproduced",
        "*in direction* (the difference has the right sign, but not the size), "
        "*contradicted*, or *not run*. An experiment has",
        "the worst verdict of its claims. The form *default* is a run that fits two CPU "
        "cores, *full* one as long as the paper's.",
        "Minutes are those of the wall clock, on a machine that did other work as well: a "
        "quiet one needs fewer.",
        "Where a table has *batch statistics* and *moving statistics*, these are the two "
        "ways to evaluate",
        "[batch normalization](reproducing.md#batch-normalization-at-evaluation).",
        "",
        "| name | paper | verdict | form | seeds | minutes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, facts in sorted(known.items()):
        if name in results:
            r = results[name]
            verdict = f"[{r['verdict']}](#{name})"
            cells = [r["form"], str(len(r["seeds"])), _minutes(r)]
        else:
            verdict, cells = "not run", ["", "", ""]
        lines.append(
            f"| `{name}` | {facts['paper']} | {verdict} | {' | '.join(cells)} |"
        )
    for name, result in sorted(results.items()):
        lines += ["", *_section(name, result)]
    return "\n".join([START, "", *lines, "", END])


def _section(name: str, result: dict[str, Any]) -> list[str]:
    """Returns the lines about one experiment."""
    seeds = len(result["seeds"])
    shown = {k: v for k, v in result["settings"].items() if k != "seeds"}
    settings = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in shown.items())
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    option = " --full" if result["form"] == "full" else ""
    lines = [
        f"### {name}",
        "",
        f"{result['paper']}. {result['claim']}",
        "",
        "| claim | paper | ours | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for claim in result["claims"]:
        cells = [claim[key] for key in ("claim", "paper", "ours", "verdict")]
        lines.append(_row(cells))
    table = result["table"]
    lines += ["", _row(table["header"]), _row(["---"] * len(table["header"]))]
    lines += [_row(row) for row in table["rows"]]
    lines += [
        "",
        f"`tfvn reproduce {name}{option} --seeds {seeds}`: {settings}; {seeds} "
        f"seed{'s' * (seeds > 1)}, {_minutes(result)} minutes on "
        f"{result['machine']}; {versions}. {result['notes']}",
    ]
    for image in result["images"]:
        title = image.removeprefix(f"{name}.").removesuffix(".png").replace("_", " ")
        lines += ["", f"![{name}: {title}](results/{image})"]
    return lines


def _minutes(result: dict[str, Any]) -> str:
    minutes = result["seconds"] / 60
    return "less than 0.1" if minutes < 0.1 else f"{minutes:.1f}"


def _row(cells: list[str]) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return "| " + " | ".join(escaped) + " |"


def written(page: str, part: str) -> str:
    """Returns the page with another part between its marks."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    return before + part + after


def main() -> None:
    """Adds runs, and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", type=pathlib.Path, nargs="*", help="folders with a result.json"
    )
    options = parser.parse_args()
    for folder in options.runs:
        add(folder)
    page = written(PAGE.read_text("utf-8"), render(load()))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
