"""The style sheet of pages, with print, dark mode and wide tables. Contrasts are at least those that WCAG 2.2 AA
requires."""

from __future__ import annotations

from worldsize.wings.pictures.colours import INK, PAPER

DARK_PAPER = "#14171a"
COLOURS = {
    "ink": (INK, "#e4e7ea"),
    "paper": (PAPER, DARK_PAPER),
    "raised": ("#f3f5f7", "#1e2226"),
    "line": ("#c9ced4", "#3d444c"),
    "muted": ("#57606a", "#a3abb3"),
    "link": ("#0b57d0", "#8ab4f8"),
    "good": ("#1a6b34", "#7fd99a"),
    "warning": ("#855000", "#ffc561"),
    "bad": ("#b3261e", "#ff8f85"),
}
"""The colours by name, each with its values on light and on dark pages."""


def _variables(which: int) -> str:
    return "".join(f"--{name}:{values[which]};" for name, values in COLOURS.items())


STYLE = f"""
:root{{color-scheme:light dark;{_variables(0)}}}
@media (prefers-color-scheme:dark){{:root{{{_variables(1)}}}}}
@media print{{:root{{{_variables(0)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:76rem;padding:1rem 1.5rem 4rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.6rem;line-height:1.25;margin:.5rem 0}}
h2{{font-size:1.25rem;margin:2rem 0 .5rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}}
h3{{font-size:1.05rem;margin:1.25rem 0 .5rem}}h4,h5,h6{{font-size:1rem;margin:1rem 0 .5rem}}
a{{color:var(--link)}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0;margin:.75rem 0}}
pre,code,kbd,samp{{font-family:ui-monospace,monospace;font-size:.9em}}
pre{{background:var(--raised);border:1px solid var(--line);border-radius:4px;padding:.6rem .8rem;margin:.5rem 0;
white-space:pre-wrap;max-height:36rem;overflow:auto;tab-size:8}}
.scroll{{overflow-x:auto;margin:.5rem 0}}
table{{border-collapse:collapse;font-variant-numeric:tabular-nums;overflow-wrap:normal}}
caption{{text-align:left;color:var(--muted);padding-bottom:.25rem}}
th,td{{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);
max-width:40rem;overflow-wrap:break-word}}
th{{font-weight:600}}thead th{{color:var(--muted);white-space:nowrap}}
.number{{text-align:right}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.25rem;margin:.5rem 0}}
dt{{color:var(--muted)}}dd{{margin:0;min-width:0}}
details{{margin:.4rem 0}}summary{{cursor:pointer}}
svg{{display:block;max-width:100%;height:auto;color:var(--ink);margin:.5rem 0}}
.good{{color:var(--good)}}.warning{{color:var(--warning)}}.bad{{color:var(--bad)}}.muted{{color:var(--muted)}}
@media (min-width:64rem){{dl{{grid-template-columns:max-content 1fr max-content 1fr}}}}
@media (max-width:40rem){{.scroll>svg{{max-width:none}}dl{{grid-template-columns:1fr}}
dd{{margin-bottom:.4rem}}body{{padding:.75rem}}}}
@media print{{body{{max-width:none;padding:0;font-size:11px}}nav{{display:none}}pre{{max-height:none}}
.scroll{{overflow:visible}}svg,tr{{break-inside:avoid}}h2,h3{{break-after:avoid}}}}
"""
