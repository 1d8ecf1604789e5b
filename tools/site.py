"""Assembles the pages of the documentation's site in build/docs.

    python tools/site.py

It copies the guides of docs/, writes the pages of the reference, one for each part of the
library, and runs the tutorials. A tutorial that has not changed, nor the library, is not
run again.
"""

import argparse
import contextlib
import hashlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator

import reference

ROOT = pathlib.Path(__file__).parent.parent
TARGET = ROOT / "build" / "docs"
CACHE = ROOT / "build" / "tutorials"
# Pages that stand at the top of the repository.
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}


def main() -> None:
    """Assembles all pages, or runs one tutorial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tutorial", type=pathlib.Path, help="run this one, and no more"
    )
    parser.add_argument("--output", type=pathlib.Path, help="directory of its page")
    options = parser.parse_args()
    if options.tutorial:
        write_tutorial(options.tutorial, options.output)
        return
    shutil.rmtree(TARGET, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(ROOT / "docs", TARGET, ignore=ignored)
    for name, page in TOP.items():
        text = (ROOT / name).read_text("utf-8")
        (TARGET / page).write_text(text.replace("](docs/", "]("), "utf-8")
    reference.write(TARGET / "reference")
    for script in sorted((ROOT / "docs" / "tutorials").glob("*.py")):
        page = made(script)
        shutil.copytree(page, TARGET / "tutorials", dirs_exist_ok=True)


def made(script: pathlib.Path) -> pathlib.Path:
    """Returns the directory of a tutorial's page, and runs the tutorial if it must."""
    page = CACHE / script.stem
    key = _key(script)
    stamp = page / ".key"
    if not stamp.is_file() or stamp.read_text() != key:
        shutil.rmtree(page, ignore_errors=True)
        start = time.perf_counter()
        command = [
            sys.executable,
            __file__,
            "--tutorial",
            str(script),
            "--output",
            str(page),
        ]
        subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603  our own file
        print(f"{script.name}: {time.perf_counter() - start:.0f} s", flush=True)
        stamp.write_text(key)
    return page


def _key(script: pathlib.Path) -> str:
    """Returns a hash of everything that the page of a tutorial depends on."""
    library = sorted((ROOT / "tfvn").rglob("*.py"))
    content = [path.read_bytes() for path in (script, pathlib.Path(__file__), *library)]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def write_tutorial(script: pathlib.Path, output: pathlib.Path) -> None:
    """Runs a tutorial and writes its page: text, code, what it prints, and figures.

    The comments after a line `# %%` are the text of the page, in Markdown. The docstring
    of the file is its beginning.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from _tfvn_command import quiet_tensorflow

    with quiet_tensorflow(at_any_level=True):
        import tfvn  # noqa: F401  every tutorial does; here without TensorFlow's log

    # A reader who runs the file sees warnings too.
    warnings.showwarning = _print_warning
    output.mkdir(parents=True)
    scope: dict = {"__name__": "__main__", "__file__": str(script)}
    pieces: list[str] = []
    for text, code in cells(script.read_text("utf-8")):
        pieces.append(text)
        if not code:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(script), "exec"), scope)  # noqa: S102  our own file
        pieces.append(f"```python\n{code}\n```")
        if printed.getvalue().strip():
            pieces.append(f"```text\n{_clean(printed.getvalue())}\n```")
        for number in plt.get_fignums():
            name = f"{script.stem}_{len(pieces)}_{number}.png"
            plt.figure(number).savefig(output / name, dpi=110)
            pieces.append(f"![Figure of this step]({name})")
        plt.close("all")
    note = f"The file [{script.name}]({script.name}) makes this page."
    page = "\n\n".join([*pieces, note]) + "\n"
    (output / f"{script.stem}.md").write_text(page, "utf-8")
    shutil.copy(script, output / script.name)


def cells(source: str) -> Iterator[tuple[str, str]]:
    """Yields the text and the code of each cell of a tutorial."""
    docstring = re.match(r'"""(.*?)"""\n', source, re.DOTALL)
    if docstring is None:
        raise ValueError(
            "A tutorial must begin with a docstring, the text of its page."
        )
    title, _, rest = docstring[1].partition("\n")
    yield f"# {title.rstrip('.')}\n\n{rest.strip()}", ""
    for cell in re.split(r"^# %%.*\n", source[docstring.end() :], flags=re.MULTILINE):
        lines = cell.strip("\n").splitlines()
        count = next(
            (i for i, line in enumerate(lines) if not line.startswith("#")), len(lines)
        )
        text = "\n".join(
            line.removeprefix("#").removeprefix(" ") for line in lines[:count]
        )
        yield text, "\n".join(lines[count:]).strip("\n")


def _print_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    # A line of code on a page has room for this.
    print(textwrap.fill(f"{category.__name__}: {message}", 78))


def _clean(printed: str) -> str:
    """Returns what was printed as a terminal would show it in the end."""
    lines = [line.rpartition("\r")[2] for line in printed.rstrip().splitlines()]
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\x08+", "", "\n".join(lines))


if __name__ == "__main__":
    main()
