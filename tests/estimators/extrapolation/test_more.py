"""Regions, surfaces and what to measure next."""

import numpy as np
import pytest

from slipstick.estimators.extrapolation import Series, extrapolate, extrapolate_many
from slipstick.estimators.extrapolation.next_point import next_points
from slipstick.estimators.extrapolation.regions import rank
from slipstick.estimators.extrapolation.surface import fit_surface
from slipstick.hwmodels.files.readers import InputError

P = np.array([1.0, 2, 4, 8, 16, 32])


def test_regions_are_ranked_by_growth() -> None:
    laws = {"flat": 5 + 0 * P, "tree": 1 + 0.5 * np.log2(P), "line": 0.1 + 0.05 * P}
    rows = rank(extrapolate_many([Series.of(P, y, "processes", n) for n, y in laws.items()], [1024]))
    assert [row["region"] for row in rows] == ["line", "tree", "flat"]
    assert sum(row["share_then"] for row in rows) == pytest.approx(1.0)
    assert rows[0]["growth"] == pytest.approx((0.1 + 0.05 * 1024) / (0.1 + 0.05 * 32), rel=0.05)


def test_threads_times_size_is_recovered_from_a_sparse_design() -> None:
    # two lines through the space, not the full grid
    points = np.array([(t, 100.0) for t in (1, 2, 4, 8)] + [(1.0, n) for n in (200, 400, 800)] + [(8.0, 800.0)])
    law = lambda x: x[:, 1] * (0.02 + 1 / x[:, 0])  # noqa: E731
    surface = fit_surface(points, law(points), ["threads", "size"])
    assert surface.kinds == ("strong", "problem_size")
    far = np.array([[64.0, 3200.0]])
    assert surface(far) == pytest.approx(law(far), rel=1e-6)
    assert surface.formula.evaluate({"threads": 64.0, "size": 3200.0}) == pytest.approx(law(far)[0], rel=1e-4)


def test_a_surface_refuses_what_it_cannot_use() -> None:
    with pytest.raises(InputError, match="3 different points; want 4"):
        fit_surface([(1, 1), (2, 1), (1, 2)], [1.0, 2.0, 3.0], ["a", "b"])
    with pytest.raises(InputError, match="finite numbers > 0"):
        fit_surface([(1, 1), (2, 1), (1, 2), (2, 0)], [1.0, 2.0, 3.0, 4.0], ["a", "b"])


def test_what_to_measure_next_narrows_the_band() -> None:
    generator = np.random.default_rng(2)
    series = Series.of(P, (2 + 100 / P) * generator.lognormal(sigma=0.02, size=6), "threads")
    prediction = extrapolate(series, [512])
    ranked = next_points(prediction)
    assert ranked == sorted(ranked, key=lambda one: -one.gain)
    farthest = max(ranked, key=lambda one: one.value)
    assert farthest.band < prediction.high[0] / prediction.low[0]
    free = next_points(prediction, [64, 256], cost=lambda x, t: 1.0)
    assert free[0].value == 256
    with pytest.raises(InputError, match="needs a band"):
        next_points(extrapolate(series, [512], level=None))


def test_the_picture_has_data_law_and_band() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = extrapolate(Series.of(P, 1 + 10 / P, "threads"), [64, 128]).plot()
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert {"law", "measured (median)", "predicted", "80% band"} <= set(axes.get_legend_handles_labels()[1])
    plt.close("all")
