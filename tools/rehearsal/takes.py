"""What a rehearsal takes out of the public tables of a scoreboard, by what the board leaves out itself."""

from __future__ import annotations

from tools.rehearsal.tables import ANY, Line, Table, Take, chip, code, generation, line

SYSTEM = 2
"""The part of gpu/aiconfigurator/SYSTEM/... that names the system."""
NEUSIGHT = Table("gpu/neusight/*_t*_*.csv.gz", "Device", generation)
STACKS = "gpu/aiconfigurator/*/{}/**/*.parquet"


def stacks(kind: str) -> Table:
    """Kernels of serving stacks: a folder a system."""
    return Table(STACKS.format(kind), SYSTEM, generation)


DEEPBENCH = Table("gpu/deepbench/*_*.csv", "file", generation)
SILICON, INFERENCEX = "serving/silicon.csv.gz", "serving/inferencex.csv.gz"
MLPERF, REQUESTS = "serving/mlperf_inference_v51.csv", "serving/requests.csv.gz"
REQUEST_FILES = (Table(REQUESTS, "case"), Table("serving/request_cases.json", None))
KINDS = ("dense", "experts", "InferenceX")
OPERATIONS = (
    NEUSIGHT,
    Table("gpu/neusight/e2e_labels.csv", "device", generation),
    Table("gpu/neusight/e2e_predictions.csv", "device", generation),
    Table("gpu/neusight/DLmodel_configs/*.json", None),
    stacks("gemm"),
    stacks("attention"),
    DEEPBENCH,
)
SPARSE = (
    Line("CSR, each device unseen", r"Ginkgo CSR.* \| [^,]* \| device unseen"),
    Line("every format, device unseen", r"Ginkgo by format.* \| accelerators, .*"),
)
TIMM, ZEUS = "vision/timm.csv.gz", Table("energy/zeus_power_limit.csv.gz", "gpu", generation)
TRAINING = "training_at_scale/{}.csv"
PROGRAM_TIMES, NEW = "programs/times.csv.gz", ("cohort", "v0.1")
GIVEN_PROGRAMS = r"^PyTorch.*\| all hosts \| scored rows"
PROGRAM_FILES = (Table("programs/operations.csv.gz", None), Table("programs/programs.csv", None))

TAKES = (
    Take(
        "bandwidth",
        "chip",
        (Table("cpu/bandwidth_scaling.csv", "machine", chip),),
        (
            Line("more cores of a chip", ANY.format("1 thread a core: mean", ".*")),
            Line("streams from a data sheet", ANY.format("loops.*1 thread a core: all machines", ".*")),
        ),
    ),
    Take(
        "cpu-layers",
        "model",
        (Table("dlbricks/layers_c5.2xlarge.csv.gz", "model_name"),),
        tuple(line(kind, kind, "models, five folds", "models") for kind in ("convolution", "norm", "elementwise")),
    ),
    Take(
        "defaults",
        "device",
        (
            Table("gpu/neusight/e2e_labels.csv", "device", generation),
            Table(PROGRAM_TIMES, "device", generation),
            Table("dlbricks/end_to_end.csv", "instance"),
            Table("local_llm/llm_inference_bench.csv.gz", "device", generation),
            Table(TRAINING.format("llm_foundry"), "gpu", generation),
        ),
        (Line("whole models", ANY.format("all", ".*")),),
    ),
    Take(
        "dlbricks",
        "machine",
        (Table("dlbricks/sequences.csv.gz", "instance"), Table("dlbricks/end_to_end.csv", "instance")),
    ),
    Take(
        "energy",
        "model",
        (ZEUS, Table("energy/llm_inference.csv.gz", "model"), Table("energy/leaderboard_v2.csv.gz", "model")),
        (
            line("power while serving", "power of a device", "model"),
            line("time of a further token", "time of a further token", "model"),
            line("energy of a token", "energy of a token at this pace", "model"),
            Line("epoch under a limit", ANY.format("time of an epoch, .*", "device")),
            Line("power under a limit", ANY.format("power of an epoch, .*", "device")),
        ),
    ),
    Take("gpu-memory", "device", (Table("portability/gpu_benches.csv.gz", "device", generation),)),
    Take("graphs", "model", (Table("graphs/zoo_params_flops.csv", "model"),), (Line("networks within 1 %", ".*"),)),
    Take(
        "kerncraft",
        "machine",
        (Table("cpu/kerncraft_cases.json", "machine"),),
        (Line("printed numbers equal, %", ANY.format(".* own caches", ".*")),),
    ),
    Take(
        "local-llm",
        "device",
        (
            Table("local_llm/localscore.csv", "accelerator", generation),
            Table("local_llm/llm_inference_bench.csv.gz", "device", generation),
        ),
        (
            line("generation", "time of a token", "accelerator unseen"),
            line("prompts", "time of a prompt's token", "accelerator unseen"),
            line("whole batches, device unseen", "time of a whole batch", "device unseen", "device unseen"),
            line("whole batches, model unseen", "time of a whole batch", "model unseen", "model unseen"),
        ),
    ),
    Take("physics", "generation", OPERATIONS, (Line("rows faster than physics", ".*"),)),
    Take(
        "programs",
        "generation",
        (Table(PROGRAM_TIMES, "device", generation, NEW), *PROGRAM_FILES),
        (Line("eager programs", GIVEN_PROGRAMS, r"^PyTorch.*\| device unseen \| device and its generation"),),
    ),
    Take(
        "programs",
        "program",
        (Table(PROGRAM_TIMES, "source", counts=NEW), *PROGRAM_FILES),
        (
            Line("eager programs", GIVEN_PROGRAMS, r"^PyTorch.*\| program unseen \| program"),
            Line("what compiling changes", "compiled.*scored rows", r"compiled.*\| program unseen \| program"),
        ),
    ),
    Take(
        "recurrences",
        "generation",
        (DEEPBENCH,),
        tuple(Line(what, f".*under DeepBench, {what}.*") for what in ("generation unseen", "cell unseen")),
    ),
    Take(
        "scaling",
        "code",
        (
            Table("scaling/series.csv", "series", code),
            Table("scaling/index.csv", "series", code),
            Table("scaling/series_more.csv", "series", code),
            Table("scaling/index_more.csv", "series", code),
        ),
        (
            Line("codes, 2 times as many", "codes.*left out, 2x.*"),
            Line("codes, 4 times as many", "codes.*left out, 4x.*"),
            Line("series, 2 times as many", r"scaling \| strong 2x \| .*"),
        ),
    ),
    Take(
        "seqpoint",
        "system",
        (
            Table("sequences/rnnt_iterations.csv.gz", "system"),
            Table("sequences/gnmt_v06_iterations.csv.gz", "system"),
            Table("sequences/measured_cpu/*.csv", None),
        ),
    ),
    Take(
        "spmv",
        "device",
        (Table("spmv/ginkgo_spmv_times.csv.gz", "platform", generation), Table("spmv/ginkgo_matrices.csv.gz", None)),
        SPARSE,
    ),
    Take(
        "spmv",
        "matrix",
        (Table("spmv/ginkgo_spmv_times.csv.gz", "matrix"), Table("spmv/ginkgo_matrices.csv.gz", "matrix")),
        SPARSE,
    ),
    Take(
        "surfaces",
        "table",
        (Table("scaling/multi_hommexx.csv", "machine"), Table("scaling/multi_relearn125.csv", None)),
        (
            Line("twice the levels", ANY.format(".*, 2x", ".*")),
            Line("four times the levels", ANY.format(".*, 4x", ".*")),
        ),
    ),
    Take(
        "simulation",
        "system",
        (Table("infeed/mlperf_storage.csv.gz", "system"), Table("serving/community.csv.gz", "model")),
        (Line("storage that feeds accelerators", ANY.format("storage that feeds accelerators", "systems")),),
    ),
    Take(
        "systolic",
        "topology",
        (Table("tpu/scalesim_v3_layers.csv", "topology"),),
        (Line("layers equal to the cycle, %", ANY.format(".*cycles equal", ".*")),),
    ),
    Take(
        "tpu",
        "width",
        (Table("tpu/paradnn_tpu_fc.csv", "node"), Table("tpu/paradnn_tpu_fc_trace.csv", "node")),
        (
            Line(
                "training steps",
                ANY.format("step time, all scored rows", ".*"),
                ANY.format("step time, width >= 2048 unseen", ".*"),
            ),
        ),
    ),
    Take("traces", "program", (Table("traces/*/*.json.gz", 1),)),
    Take(
        "training",
        "accelerator",
        (
            Table(TRAINING.format("mlperf_training"), "accelerator", generation),
            Table(TRAINING.format("megatron_bridge"), "system", generation),
            Table(TRAINING.format("llm_foundry"), "gpu", generation),
        ),
        (
            Line("mlperf", r".*mlperf \| rows kept aside.*", r".*mlperf \| accelerator unseen \| .*"),
            Line(
                "megatron-bridge",
                r".*megatron-bridge \| rows kept aside.*",
                r".*megatron-bridge \| accelerator unseen \| .*",
            ),
            Line("llm-foundry", r".*llm-foundry \| rows kept aside.*", r".*llm-foundry \| system left out \| .*"),
        ),
    ),
    Take(
        "training",
        "model",
        (
            Table(TRAINING.format("mlperf_training"), "benchmark"),
            Table(TRAINING.format("megatron_bridge"), "model"),
            Table(TRAINING.format("llm_foundry"), "model"),
        ),
        (
            Line(
                "megatron-bridge", r".*megatron-bridge \| rows kept aside.*", r".*megatron-bridge \| model unseen \| .*"
            ),
            Line("llm-foundry", r".*llm-foundry \| rows kept aside.*", r".*llm-foundry \| cluster size left out \| .*"),
        ),
    ),
    Take(
        "whatif",
        "device",
        (
            NEUSIGHT,
            stacks("gemm"),
            stacks("attention"),
            ZEUS,
            Table(PROGRAM_TIMES, "device", generation),
            *PROGRAM_FILES,
        ),
    ),
    Take(
        "collectives",
        "generation",
        (Table("gpu/vidur/network/*/*.csv.gz", 3), stacks("comm")),
        (
            Line("all-reduces by NCCL", ".*own all-reduces.*"),
            Line("other functions by NCCL", ".*own other functions.*"),
            Line("collectives of programs", r".*\| [^|,]*_(dgx|nvlink) \| .*"),
        ),
    ),
    Take(
        "serving",
        "model",
        (Table(SILICON, "model_key"), Table(INFERENCEX, "model"), Table(MLPERF, "model"), *REQUEST_FILES),
        tuple(line(f"further token, {kind}", f"time of a further token, {kind}", "model unseen") for kind in KINDS),
    ),
    Take(
        "serving",
        "system",
        (
            Table(SILICON, "system", generation),
            Table(INFERENCEX, "system", generation),
            Table(MLPERF, "accelerator", generation),
            *REQUEST_FILES,
        ),
        (
            *(line(f"further token, {kind}", f"time of a further token, {kind}", "system unseen") for kind in KINDS),
            line("MLPerf inference", "Offline, time of a token", "accelerator unseen", "accelerator unseen"),
        ),
    ),
    Take(
        "vision",
        "family",
        (Table(TIMM, "family"),),
        (Line("image networks", r"image networks \| .* \| scored rows", r"image networks \| .* \| family"),),
    ),
    Take(
        "vision",
        "device",
        (Table(TIMM, "device", generation),),
        (Line("image networks", r"image networks \| .* \| scored rows", r"image networks, device unseen \| .*"),),
    ),
    Take(
        "experts",
        "generation",
        (stacks("moe"), stacks("mla")),
        tuple(
            Line(what, f".*\\| {what}.*")
            for what in ("layers of experts", "latent attention, prompts", "latent attention, decode")
        ),
    ),
    Take("anchors", "generation", (NEUSIGHT, Table(SILICON, "system", generation), stacks("attention"))),
    Take(
        "operations",
        "generation",
        (
            *OPERATIONS,
            Table("gpu/infersim/operators.csv.gz", "device", generation),
            Table("gpu/frontier/*.csv.gz", "device", generation),
            Table("serving/profile_dense.csv.gz", "device", generation),
        ),
    ),
)
"""In the order of their cost: minutes of a core last."""
