"""The site shows every public name, and tutorials explain them."""

import pathlib
import re
import sys

import pytest

import tfvn

griffe = pytest.importorskip("griffe", reason="the extra `docs` has it")

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
docstrings = pytest.importorskip("docstrings")
reference = pytest.importorskip("reference")


@pytest.fixture(scope="module")
def pages():
    library = griffe.load("tfvn", search_paths=[str(ROOT)])
    return reference.page_names(library)


def test_every_public_name_is_in_the_reference(pages):
    listed = {name for _, names in pages.values() for name in names}
    last_parts = {name.rpartition(".")[2] for name in listed}
    modules = {
        name for name in tfvn.__all__ if isinstance(getattr(tfvn, name), type(tfvn))
    }
    missing = {*tfvn.__all__} - modules - last_parts - {"__version__"}
    for module in modules:
        missing |= {*getattr(tfvn, module).__all__} - last_parts
    assert not missing


def test_every_page_of_the_reference_is_in_the_order_of_pages(pages):
    order = (ROOT / "mkdocs.yml").read_text()
    assert not [page for page in pages if f"reference/{page}.md" not in order]


def test_examples_become_code_and_sections_headings():
    text = docstrings.as_markdown(
        "Adds.\n\nInput shape:\n    Any.\n\nExample:\n\n>>> 1 + 1\n2\n\nReference:\n\n- A"
    )
    assert text == (
        "Adds.\n\n**Input shape**\n\nAny.\n\n**Example**\n\n"
        "```pycon\n>>> 1 + 1\n2\n```\n\n**Reference**\n\n- A"
    )


def test_every_public_name_of_the_top_is_in_a_guide_or_tutorial():
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    text = "\n".join(path.read_text() for path in files)
    words = set(re.findall(r"\w+", text))
    # Guides name the linear ops and the posteriors, and not all their combinations.
    presets = {
        posterior + op
        for posterior in reference.POSTERIORS
        for op in reference.OPERATIONS
    }
    assert not {*tfvn.__all__} - words - presets - {"__version__"}
