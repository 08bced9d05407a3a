"""What explanations and studies are made of: sensitivities, crossovers, cheapest changes, fronts."""

from .experiments.explain.explanation import bottleneck_rows as bottleneck_rows
from .experiments.explain.explanation import elasticity_rows as elasticity_rows
from .experiments.explain.explanation import cheapest_changes as cheapest_changes
from .experiments.explain.cheapest import cheapest_together as cheapest_together
from .estimators.sensitivity.elasticities import sensitivity as sensitivity
from .estimators.sensitivity.elasticities import crossovers as crossovers
from .experiments.question.space import Space as Space
from .experiments.question.objectives import with_front as with_front
