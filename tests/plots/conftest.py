import matplotlib as mpl
import pytest

mpl.use("agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    """Closes the figures of a test, and finds out if it left global settings changed."""
    import matplotlib.pyplot as plt

    settings = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings


@pytest.fixture
def legend():
    """The texts in the legend of axes."""
    return lambda ax: [text.get_text() for text in ax.get_legend().get_texts()]
