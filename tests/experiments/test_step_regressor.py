"""The regressor that simulators may put into their slot for one: scikit-learn's own tools take it."""

import subprocess
import sys

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError

BATCHES = np.array([[n, context, prompt, 0.0] for n in (1, 8, 64) for context in (256, 4096) for prompt in (0, 512)])

SEEN, UNSEEN = [0, 3, 4, 7, 8, 11], [1, 2, 5, 6, 9, 10]


def test_it_predicts_the_oracle_and_learns_from_rows() -> None:
    plain = ss.StepRegressor("llama-3.1-8b", "h100-sxm", engine="vllm 0.19.0")
    step = ss.oracle("llama-3.1-8b", "h100-sxm", "vllm 0.19.0")
    before = plain.predict(BATCHES)
    assert before == pytest.approx(step(*BATCHES.T[:3]).seconds)
    slower = 1.3 * before
    after = ss.StepRegressor("llama-3.1-8b", "h100-sxm", engine="vllm 0.19.0").fit(BATCHES[SEEN], slower[SEEN])
    errors = np.abs(np.log(after.predict(BATCHES[UNSEEN]) / slower[UNSEEN]))
    assert errors.max() < 0.5 * np.log(1.3)
    assert after.score(BATCHES, slower) > 0.99


def test_scikit_learn_clones_and_folds_it() -> None:
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    step = ss.StepRegressor("llama-3.1-8b", "h100-sxm", engine="vllm 0.19.0")
    assert base.clone(step).get_params() == step.get_params()
    assert base.is_regressor(step)
    scores = selection.cross_val_score(step, BATCHES, 1.2 * step.predict(BATCHES), cv=3)
    assert scores.min() > 0.95


def test_a_frame_has_its_columns_by_name() -> None:
    import pandas as pd

    step = ss.StepRegressor("llama-3.1-8b", "h100-sxm")
    frame = pd.DataFrame({"context": [2048.0], "decodes": [64.0]})
    assert step.predict(frame) == pytest.approx(step.predict([[64, 2048]]))
    with pytest.raises(InputError, match="unknown column 'tokens'"):
        step.predict(pd.DataFrame({"tokens": [1.0]}))
    with pytest.raises(InputError, match="2 batches and 1 times"):
        step.fit([[1, 100], [2, 100]], [0.01])


def test_scikit_learn_stays_out() -> None:
    words = "import sys, slipstick as ss; ss.StepRegressor().predict([[1, 100]]); print('sklearn' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "False"
