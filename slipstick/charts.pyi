"""Pictures of answers."""

from .experiments.pages.plots import draw_charts as draw_charts
from .experiments.pages.plots import plotly_chart as plotly_chart
from .experiments.pages.whatif_report import ratio_chart as ratio_chart
