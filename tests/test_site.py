"""The site shows every public name, and tutorials explain them."""

import collections
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


def guides():
    """Returns the text of all guides and tutorials, without pages of results."""
    no_guides = {"ARCHITECTURE.md", "BENCHMARKS.md", "RESULTS.md"}
    pages = [x for x in (ROOT / "docs").glob("*.md") if x.name not in no_guides]
    pages += (ROOT / "docs" / "tutorials").glob("*.py")
    pages += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return "\n".join(page.read_text() for page in pages)


def combinations():
    """Returns names that guides need not spell out: posteriors with linear ops."""
    return {
        posterior + op
        for posterior in reference.POSTERIORS
        for op in reference.OPERATIONS
    }


def test_every_public_name_of_the_top_is_in_a_guide_or_tutorial():
    words = set(re.findall(r"\w+", guides()))
    assert not {*tfvn.__all__} - words - combinations() - {"__version__"}


def test_every_public_name_of_a_module_is_in_a_guide_or_tutorial():
    text = guides()
    words = set(re.findall(r"\w+", text))
    modules = {
        name: getattr(tfvn, name).__all__
        for name in tfvn.__all__
        if isinstance(getattr(tfvn, name), type(tfvn))
    }
    times = collections.Counter(name for names in modules.values() for name in names)

    def is_shown(module, name):
        # A common word, or a name of two modules, says nothing without its module.
        is_telling = name[0].isupper() or "_" in name
        if is_telling and times[name] == 1:
            return name in words
        return re.search(rf"\b{module}\.{name}\b", text) is not None

    missing = [
        f"{module}.{name}"
        for module, names in modules.items()
        for name in names
        if name not in combinations() and not is_shown(module, name)
    ]
    assert missing == []


def test_every_guide_is_in_the_order_of_pages():
    order = (ROOT / "mkdocs.yml").read_text()
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert not [page for page in pages if f"- {page}\n" not in order]


def test_links_and_pictures_of_the_pages_exist():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    top = {
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    }  # tools/site.py puts these beside the guides
    missing = []
    for page in pages:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#]+)", text):
            if link.startswith("http") or link in top:
                continue
            target = page.parent / link
            if target.parent.name == "tutorials":
                target = target.with_suffix(".py")
            if not target.exists():
                missing.append(f"{page.name}: {link}")
    assert missing == []
