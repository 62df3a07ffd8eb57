"""The colours of pictures and pages."""

from __future__ import annotations

INK = "#1b1f24"
PAPER = "#ffffff"
"""The background colour, behind text and axes in the colour INK. Inside a page, both are replaced by the page's own."""
GRID = "#80868c"
FADED = "#85898e"
"""The colour of lines that are too many to be distinguished."""

PALETTE = ("#0072b2", "#d55e00", "#009070", "#b8609a", "#7a6ad8", "#9a7400", "#3f8fc0", "#c04848")
"""The colours of lines and bars, after Okabe and Ito, so that people who do not see red or green can distinguish them.
The contrast of each to white paper, and to a dark page, is at least the factor 3 that WCAG 2.2 (1.4.11) requires of
graphics."""
