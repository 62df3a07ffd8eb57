"""The functions of the pictures wing for other wings (`service/providers.py`): charts, and HTML pages in one file."""

from __future__ import annotations

from worldsize.wings.pictures.chart import Chart as Chart
from worldsize.wings.pictures.chart import Line as Line
from worldsize.wings.pictures.chart import draw_chart as draw_chart
from worldsize.wings.pictures.chart import draw_charts as draw_charts
from worldsize.wings.pictures.page import Child as Child
from worldsize.wings.pictures.page import Element as Element
from worldsize.wings.pictures.page import details as details
from worldsize.wings.pictures.page import element as element
from worldsize.wings.pictures.page import key_values as key_values
from worldsize.wings.pictures.page import make_page as make_page
from worldsize.wings.pictures.page import scrolling as scrolling
from worldsize.wings.pictures.page import section as section
from worldsize.wings.pictures.page import table as table
from worldsize.wings.pictures.timeline import Span as Span
from worldsize.wings.pictures.timeline import TimelineRow as TimelineRow
from worldsize.wings.pictures.timeline import draw_timeline as draw_timeline
