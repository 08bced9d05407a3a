# make demo: the main job on a bare machine (Python >= 3.11, pip, make). make test: everything CI checks. make slow: the rest.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
EXTRAS ?= dev,pages,parquet,xarray,measure,onnx,dask,agents,torch

# Where this is set, each process of the tests would compile all modules of the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo install test suite slow mutants lint style types prebuilt validate bench attack docs clean engines peers

demo: $(VENV)/.light ## and, once it is answered, what makes the first questions of a fresh checkout as quick as the second
	$(RUN) -m slipstick demo
	$(RUN) -m tools.prebuilt

install: $(VENV)/.full prebuilt

test: $(VENV)/.full
	$(MAKE) --jobs=2 types suite  # one core checks types while the other begins

suite: prebuilt style
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(RUN) -m pytest -q -n auto --dist worksteal -m "not timed and not slow" $(PYTEST)

slow: $(VENV)/.full prebuilt ## what make test leaves out for its length, and random examples of the laws
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(RUN) -m pytest -q -n auto --dist worksteal -m "(slow or hypothesis) and not timed" \
		--hypothesis-profile search $(PYTEST)

lint: style types

style: $(VENV)/.full
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/lint-imports

types: $(VENV)/.full
	$(RUN) -m mypy

prebuilt: $(VENV)/.light
	$(RUN) -m tools.prebuilt

validate: $(VENV)/.full
	-$(RUN) -m slipstick validate all --save docs/validation

attack: $(VENV)/.full
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(RUN) -m tests.attack --cases 50000

mutants: $(VENV)/.full ## small changes to the product, and which of them no test notices (an hour)
	$(RUN) -m tools.mutants $(MUTANTS)

bench: $(VENV)/.full prebuilt ## timed tests, CPU seconds of commands, questions a second beside what make peers has put there
	OMP_NUM_THREADS=1 $(RUN) -m pytest -q -m timed
	$(RUN) -m tools.speed
	$(RUN) -m tools.loops $(addprefix --calculon ,$(wildcard $(PEERS)/calculon)) $(addprefix --peers ,$(wildcard $(PEERS)/bin/python))

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'slipstick needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.light: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[pages]"
	touch $@

$(VENV)/.full: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --no-compile --editable ".[$(EXTRAS)]"
	$(PIP) --no-compile --no-deps pytorchcv
	$(RUN) -m compileall -q -j 0 -x '/(tests|testing|_inductor|pip|setuptools|mypy|mypyc|fontTools|lexers)/' $(VENV)/lib >/dev/null || true  # as pip does on one core
	touch $@ $(VENV)/.light

docs: $(VENV)/.light
	$(PIP) --editable ".[docs,pages]"
	$(RUN) -m tools.site

clean:
	rm -rf $(VENV) slipstick-out dist

engines: ## the same study on real engines of one machine; mpi4py needs an MPI library (Debian: libopenmpi-dev openmpi-bin)
	$(PYTHON) -m venv $(VENV)-engines
	$(VENV)-engines/bin/python -m pip --disable-pip-version-check install --quiet --editable ".[dask]" parsl executorlib
	command -v mpiexec >/dev/null && $(VENV)-engines/bin/python -m pip --disable-pip-version-check install --quiet mpi4py || true
	$(VENV)-engines/bin/python tests/engines/run_engines.py

PEERS := $(VENV)-peers
peers: $(VENV)/.full ## other people's predictors on the public cases, beside ours
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet extrap big-O llm-analysis "numpy<2" "pandas<3"
	test -d $(PEERS)/extrap || git clone --quiet --depth 1 https://github.com/extra-p/extrap $(PEERS)/extrap
	test -d $(PEERS)/calculon || git clone --quiet --depth 1 https://github.com/calculon-ai/calculon $(PEERS)/calculon
	mkdir -p slipstick-out/peers
	for board in scaling surfaces training serving; do $(RUN) -m slipstick validate $$board --export-cases slipstick-out/peers/$$board.csv; done
	$(PEERS)/bin/python tools/peers/extra_p.py slipstick-out/peers/scaling.csv slipstick-out/peers/extra-p.csv
	$(PEERS)/bin/python tools/peers/extra_p_surfaces.py slipstick-out/peers/surfaces.csv slipstick-out/peers/extra-p-surfaces.csv
	$(PEERS)/bin/python tools/peers/big_o_laws.py slipstick-out/peers/scaling.csv slipstick-out/peers/big-o.csv
	for board in training serving; do $(PEERS)/bin/python tools/peers/llm_analysis_steps.py slipstick-out/peers/$$board.csv slipstick-out/peers/llm-analysis-$$board.csv; done
	$(RUN) -m slipstick validate scaling --predictions slipstick-out/peers/extra-p.csv --predictions slipstick-out/peers/big-o.csv --baselines all
	$(RUN) -m tools.peers.extra_p_series $(PEERS)/extrap/tests/data slipstick-out/peers/extra-p-files
	$(RUN) -m slipstick validate scaling --data slipstick-out/peers/extra-p-files --export-cases slipstick-out/peers/own.csv
	$(PEERS)/bin/python tools/peers/extra_p.py slipstick-out/peers/own.csv slipstick-out/peers/extra-p-own.csv
	$(RUN) -m slipstick validate scaling --data slipstick-out/peers/extra-p-files --predictions slipstick-out/peers/extra-p-own.csv --baselines all
	$(RUN) -m slipstick validate surfaces --predictions slipstick-out/peers/extra-p-surfaces.csv --baselines all
	for board in training serving; do $(RUN) -m slipstick validate $$board --predictions slipstick-out/peers/llm-analysis-$$board.csv --baselines all; done
