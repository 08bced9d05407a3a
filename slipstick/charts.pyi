"""Pictures of answers."""

from .experiments.report.answer_charts import plot as plot
from .experiments.report.plots import draw_charts as draw_charts
from .experiments.report.whatif_page import ratio_chart as ratio_chart
