"""The colours of pictures and pages."""

from __future__ import annotations

INK = "#1b1f24"
PAPER = "#ffffff"
"""Of text and axes, and of what is behind them. Inside a page they are the page's own."""
GRID = "#80868c"
FADED = "#85898e"
"""Of lines that are too many to be told apart."""

PALETTE = ("#0072b2", "#d55e00", "#009070", "#b8609a", "#7a6ad8", "#9a7400", "#3f8fc0", "#c04848")
"""Of lines and bars: after Okabe and Ito, so that people who do not see red or green tell them apart. Each is darker
than paper, and lighter than a dark page, by the factor 3 that WCAG 2.2 (1.4.11) wants of graphics."""
