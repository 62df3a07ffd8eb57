"""Figures by matplotlib's object interface, without a display, pyplot, or the user's settings and styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO

from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError
from worldsize.extras import missing_package_error
from worldsize.wings.pictures.axes import draw_axes
from worldsize.wings.pictures.chart_values import Chart
from worldsize.wings.pictures.colours import GRID, INK, PAPER
from worldsize.wings.pictures.legend import legend_width, shown_text

_WIDTH = 8.6
_HEIGHT = 2.6
_SHARED_HEIGHT = 2.3
_TOP, _BETWEEN, _BETWEEN_SHARED, _BOTTOM = 0.4, 0.95, 0.5, 0.55
_LEFT, _RIGHT = 0.85, 0.2
"""The sizes in inches of the picture, of a panel, and of the margins. matplotlib could compute the margins, but that
takes as much time as drawing."""
_FORMATS = ("svg", "png")
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "worldsize",
    "text.parse_math": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "savefig.dpi": 120,
}


def figure_bytes(charts: Sequence[Chart], format: str) -> bytes:
    if format not in _FORMATS:
        raise ValueError(f"a picture is {' or '.join(_FORMATS)}, not {format}")
    with _silence(), _own_settings(_load_matplotlib()):
        return _bytes_of(_figure(charts), charts[0].title if charts else "", format)


def _load_matplotlib() -> Any:
    """Return the package matplotlib. Raise ConfigError if it is missing, or if the user's settings break its import.
    `MPLBACKEND` is ignored. If the user's cache cannot be written, matplotlib creates a temporary one, which is removed
    again."""
    import atexit
    import os
    import shutil

    before = {name: os.environ.get(name) for name in ("MPLBACKEND", "MPLCONFIGDIR")}
    os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except ImportError as error:
        if error.name not in ("matplotlib", None):
            raise ConfigError(f"matplotlib cannot be loaded: {error}") from None
        raise missing_package_error("drawing a picture", "matplotlib", "plots") from None
    except Exception as error:  # noqa: BLE001  # the import reads the user's settings, which may make it fail
        hint = "check ./matplotlibrc and ~/.config/matplotlib/matplotlibrc"
        raise ConfigError(f"matplotlib cannot be loaded: {error}", None, hint) from None
    finally:
        temporary = os.environ.get("MPLCONFIGDIR")
        if temporary != before["MPLCONFIGDIR"] and temporary:
            atexit.unregister(shutil.rmtree)  # matplotlib's own removal at exit, which `worldsize` does not wait for
            shutil.rmtree(temporary, ignore_errors=True)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return matplotlib


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the messages of matplotlib on stderr about caches, fonts and glyphs."""
    import logging
    import warnings

    logger = logging.getLogger("matplotlib")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


@contextmanager
def _own_settings(matplotlib: Any) -> Iterator[None]:
    """Apply the defaults of matplotlib and the settings of worldsize's pictures (`_SETTINGS`) within the context."""
    with matplotlib.rc_context():
        defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}
        matplotlib.rcParams.update({**defaults, **_SETTINGS})
        yield


def _figure(charts: Sequence[Chart]) -> Any:
    from matplotlib.figure import Figure

    count = max(1, len(charts))
    shared = count > 1 and len({_x_axis(chart) for chart in charts}) == 1
    height = _SHARED_HEIGHT if shared else _HEIGHT
    between = _BETWEEN_SHARED if shared else _BETWEEN
    whole = _TOP + count * height + (count - 1) * between + _BOTTOM
    figure = Figure(figsize=(_WIDTH, whole))
    panels = figure.subplots(count, sharex=shared, squeeze=False)[:, 0]
    right = _RIGHT + max((legend_width(chart) for chart in charts), default=0)
    figure.subplots_adjust(
        left=_LEFT / _WIDTH, right=1 - right / _WIDTH, top=1 - _TOP / whole, bottom=_BOTTOM / whole,
        hspace=between / height,
    )  # fmt: skip
    for number, (chart, panel) in enumerate(zip(charts, panels, strict=False)):
        draw_axes(panel, chart, with_x_label=not shared or number == count - 1)
    return figure


def _x_axis(chart: Chart) -> object:
    return chart.kind, chart.x_label, chart.x_scale, chart.x_ticks


def _bytes_of(figure: Any, title: str, format: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stream = BytesIO()
    if format == "svg":
        metadata = {"Date": None, "Creator": None, "Title": shown_text(title, 200)}
        FigureCanvasSVG(figure).print_figure(stream, format="svg", metadata=metadata)
    else:
        FigureCanvasAgg(figure).print_figure(stream, format="png", metadata={"Software": None})
    return stream.getvalue()
