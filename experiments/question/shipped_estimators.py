"""The estimators that ship, one record each: the only place that says what a name means."""

from __future__ import annotations

from functools import partial
from typing import Literal

from slipstick.estimators.base.shipped_estimator import Example, ShippedEstimator
from slipstick.estimators.base.validity_domain import Domain
from slipstick.experiments.question import estimator_builders as build

GPUS = "GPUs: 20 and more of NVIDIA and AMD measured, any other by its family's mean; FP32, TF32, FP16 and BF16"
VIEBKE = "Viebke et al., Performance Modelling of Deep Learning on Intel Many Integrated Core Architectures, 2019"
ROOFLINE = "slipstick.estimators.roofline.roofline:Roofline"
SCHEDULES = "slipstick.estimators.schedules"
ON_DEVICES = "slipstick.estimators.training.graph_on_devices"
STUDY = "slipstick.estimators.cpu.xeon_phi_study"
PHI = ("intel-knights-corner",)
PHI_NETWORKS = {size: f"phi-cnn-{size}" for size in ("small", "medium", "large")}
NET = Example("mlp-inference", "a100-sxm-80gb", (("batch", 64),))
ON_PHI = Example("phi-cnn-small", "xeon-phi-7120p", (("threads", 80),))
OTHER_THREADS = Example(
    "mlp",
    "xeon-phi-7120p",
    (
        ("images", 100),
        ("threads", 8),
    ),
)
SHARED = "threads that share the cores: instructions counted and contention, strategy (a) of Viebke et al. 2019"
ON_BOARD = Example("data-parallel-mlp", "tpu-v2-8")


def _threads(
    name: str, strategy: Literal["a", "b"], beyond: build.Beyond, purpose: str, error: str
) -> ShippedEstimator:
    """A strategy of the study: banded on its machine, most where its networks run; elsewhere nothing was measured."""
    study = (
        (Domain(networks=(network,), families=PHI), partial(build.made, f"{STUDY}:calibrated", size, strategy, beyond))
        for size, network in PHI_NETWORKS.items()
    )
    others = (Domain(families=PHI), partial(build.made, f"{STUDY}:other_networks", strategy, beyond))
    elsewhere = (Domain(), partial(build.made, f"{STUDY}:threaded", strategy, "oversubscribed"))
    return ShippedEstimator(
        name,
        partial(build.made, f"{STUDY}:threaded", strategy, beyond),
        purpose=purpose,
        domain="Xeon Phi 7120P with a band; other machines with cores without one, until measured",
        error=error,
        source=f"{VIEBKE}, Tables III to XI",
        calibrations=(*study, others, elsewhere),
        fitted_for=(Domain(networks=tuple(PHI_NETWORKS.values())),) if name == "phi-a" else (),
        why=SHARED if name == "threads-counted" else "the paper's thread formula, fitted to this network",
        example=OTHER_THREADS if name == "threads-counted" else ON_PHI,
    )


DEFAULT = ShippedEstimator(
    "default",
    build.best_known,
    purpose="any workload on any machine: the best of the others that is known, with a band",
    domain="GPUs: measured kernels under a host or many devices; CPUs, TPUs, systolic arrays, Xeon Phi: their own "
    "models; other machines: the data sheet's rates at their usual share, and a wide band",
    error="median 10 %, 90th percentile 36 % on 86 public figures of whole models (roofline 34 %, 63 %)",
    board="defaults",
)
"""What answers where no estimator is named (`estimators.routing`, `question.defaults`)."""

SHIPPED: tuple[ShippedEstimator, ...] = (
    ShippedEstimator(
        "roofline",
        partial(build.composed, ROOFLINE, "roofline, one operation after the other"),
        purpose="the data sheet's bound: no kernel is faster",
        domain="any machine",
        error="median 34 % of whole models, 90th percentile 63 %: too fast",
        board="defaults",
        source="Williams, Waterman, Patterson, Roofline, CACM 52, 2009",
        example=NET,
    ),
    ShippedEstimator(
        "roofline-critical-path",
        partial(build.composed, ROOFLINE, "roofline, critical path", f"{SCHEDULES}.critical_path:CriticalPath"),
        purpose="the same where operations run side by side",
        domain="any machine",
        board="dlbricks",
        example=NET,
    ),
    ShippedEstimator(
        "roofline-dispatch",
        partial(
            build.composed, ROOFLINE, "roofline, asynchronous dispatch", f"{SCHEDULES}.dispatch:AsynchronousDispatch"
        ),
        purpose="the same, issued by a host onto streams",
        domain="GPUs",
        board="dispatch",
        example=NET,
    ),
    ShippedEstimator(
        "contended-dispatch",
        partial(
            build.composed,
            ROOFLINE,
            "roofline, streams that share the memory's bandwidth, simulated",
            "slipstick.estimators.simulation.contended_dispatch:ContendedDispatch",
        ),
        purpose="streams that share the memory's bandwidth, simulated",
        domain="GPUs",
        board="dispatch",
        example=NET,
    ),
    ShippedEstimator(
        "tiled-roofline",
        partial(
            build.composed,
            "slipstick.estimators.gpu.kernels.tiled_roofline:TiledRoofline",
            "tiled roofline, one operation after the other",
        ),
        purpose="kernels as tiles, unfitted",
        domain="GPUs of many cores; no few-core accelerators",
        board="operations",
        example=NET,
    ),
    ShippedEstimator(
        "collectives",
        partial(build.made, f"{ON_DEVICES}:collective_times"),
        purpose="collectives by themselves, by NCCL's algorithms and protocols",
        domain="NVLink, NVSwitch, PCIe, InfiniBand",
        error="median 4 to 12 % above 64 KB on machines left out, 4 to 49 % where no link was measured",
        board="collectives",
        aliases=("nccl",),
        fitted_for=(Domain(kinds=("collective",)),),
        why="the least of rings, trees and NVLS by NCCL's protocols",
        example=Example("all-reduce", "a100-80-dgx", (("devices", 8),)),
    ),
    ShippedEstimator(
        "parallel-training",
        partial(build.made, f"{ON_DEVICES}:parallel_training"),
        purpose="a transformer under tensor, pipeline, data and sequence parallelism",
        domain="A100; other GPUs with their own kernels by default",
        error="mean 4 %, largest 5 % of eight published iterations",
        board="megatron",
        fitted_for=(Domain(kinds=("pipeline parallel",)),),
        example=Example(
            "megatron-22b",
            "a100-80-dgx",
            (
                ("tensor_parallel", 4),
                ("pipeline_parallel", 2),
                ("batch", 8),
            ),
        ),
    ),
    ShippedEstimator(
        "data-parallel-dispatch",
        partial(build.made, f"{ON_DEVICES}:data_parallel_training"),
        purpose="replicas whose gradients are summed beside the backward pass",
        domain=GPUS,
        board="defaults",
        fitted_for=(Domain(kinds=("data parallel",)),),
        example=Example(
            "bert-base-data-parallel",
            "a100-80-dgx",
            (
                ("data_parallel", 4),
                ("batch", 64),
            ),
        ),
    ),
    ShippedEstimator(
        "training",
        partial(build.made, "slipstick.estimators.training.training_estimator:TrainingEstimator"),
        purpose="a training step of a language model: time, tokens/s, MFU, memory, power, cost under a layout",
        domain="GPUs under five trainers (machine.runtime.library=fsdp), dense models and experts",
        error="median 4 to 13 % of published steps, machines, models and systems left out",
        board="training",
        fitted_for=(Domain(kinds=("training",)),),
        why="the law fitted to published training steps, which plan training searches",
        example=Example(
            "train:llama-3.1-8b",
            "h100-dgx",
            (
                ("tensor_parallel", 2),
                ("data_parallel", 8),
                ("batch", 64),
            ),
        ),
    ),
    ShippedEstimator(
        "serving",
        partial(build.made, "slipstick.estimators.serving.request_estimator:RequestEstimator"),
        purpose="requests to a language model: tokens/s, times to first and further tokens, power, memory, cost",
        domain="GPUs and other accelerators under vLLM, SGLang or TensorRT-LLM (machine.runtime.library)",
        error="median 8 to 13 % of the time of a further token, 29 % of that to the first, models left out",
        board="serving",
        fitted_for=(Domain(kinds=("requests",)),),
        why="a server's steps as fitted to measured ones, request by request",
        example=Example("llama-3.1-8b", "h100-sxm", (("concurrency", 16),)),
    ),
    ShippedEstimator(
        "loops",
        build.loops,
        purpose="streams and stencils on cores that share a saturating memory (--threads N)",
        domain="CPUs with bytes_per_cycle for each cache, as the catalogue, kerncraft and host files have them",
        error="median 9 %, 90th percentile 28 % of streams on CPUs left out, by data sheets (bytes / bandwidth 37 %)",
        board="bandwidth",
        source="Stengel et al., ICS 2015; Hofmann et al., ISC 2018; likwid-bench bandwidths of eight CPUs",
        aliases=("streams",),
        fitted_for=(Domain(kinds=("loop",)),),
        why="layer conditions of a loop over arrays, on cores that share a saturating memory",
        lacks=build.loops_lack,
        example=Example("stream-triad", "xeon-gold-6148", (("threads", 5),)),
    ),
    ShippedEstimator(
        "layer-conditions",
        partial(
            build.composed,
            "slipstick.estimators.cpu.layer_conditions:LayerConditions",
            "layer conditions and ECM model, one loop after the other",
        ),
        purpose="streams and stencils (jacobi-2d-5pt, stream-triad, ...): layer conditions and the ECM model",
        domain="CPUs with bytes_per_cycle for each cache, as the catalogue and kerncraft files have them",
        error="median 34 % of streams on CPUs left out, by their data sheets: too fast",
        board="bandwidth",
        source="Stengel et al., ICS 2015; Hammer et al., Kerncraft, 2017",
        aliases=("ecm",),
        example=Example(
            "jacobi-2d-5pt",
            "xeon-gold-6148",
            (
                ("x", 4000),
                ("y", 4000),
            ),
        ),
    ),
    ShippedEstimator(
        "cpu",
        partial(
            build.composed,
            "slipstick.estimators.cpu.cpu_roofline:CpuRoofline",
            "roofline of a multi-core CPU, one operation after the other",
        ),
        purpose="multi-core CPUs by cache level, unfitted",
        domain="CPUs with a host or kerncraft file",
        board="cpu-layers",
        source="ECM and roofline of multi-core CPUs: Stengel et al., ICS 2015; Hofmann et al., ISC 2018",
        example=Example("mlp-inference", "xeon-gold-6148", (("batch", 64),)),
    ),
    ShippedEstimator(
        "cpu-kinds",
        build.cpu_kinds,
        purpose="the same with shares of its own for products, convolutions, attention and all else: what probe fits",
        domain="CPUs with a host file, and a calibration of `slipstick probe`",
        source="ECM and roofline of multi-core CPUs: Stengel et al., ICS 2015; Hofmann et al., ISC 2018",
        example=Example("mlp-inference", "xeon-gold-6148", (("batch", 64),)),
    ),
    ShippedEstimator(
        "systolic",
        partial(
            build.composed,
            "slipstick.estimators.tpu.systolic_array:SystolicArray",
            "systolic array with double-buffered operands, in sequence",
        ),
        purpose="products on a systolic array, cycles in closed form",
        domain="engines with rows and columns",
        error="0 % of the cycles of SCALE-Sim, a simulator; of a machine none known",
        board="systolic",
        source="Samajdar et al., SCALE-Sim, ISPASS 2020",
        example=Example("gemm", "tpu-v2-8"),
    ),
    ShippedEstimator(
        "tpu",
        build.tpu,
        purpose="training steps of fully connected networks on a TPU board",
        domain="TPU v2-8; other networks by default with a wider band",
        error="median 3 to 5 % of step times left out",
        board="tpu",
        source="ParaDnn: Wang, Wei, Brooks, Benchmarking TPU, GPU, and CPU Platforms for Deep Learning, 2019",
        calibrations=((Domain(networks=("data-parallel-mlp",)), build.fitted_tpu),),
        fitted_for=(Domain(networks=("data-parallel-mlp",)),),
        why="its own calibration: training steps of fully connected networks on a TPU v2",
        example=ON_BOARD,
    ),
    ShippedEstimator(
        "spmv",
        partial(build.made, "slipstick.estimators.sparse.sparse_products:spmv_estimator"),
        purpose="sparse matrix times vector",
        domain="CPUs, matrices in CSR",
        error="mean 9 % of matrices left out",
        board="spmv",
        aliases=("sparse-products",),
        fitted_for=(Domain(kinds=("sparse product",)),),
        why="the sparse matrix product's own model",
        lacks=build.one_core_lacks,
        example=Example("spmv-grid", "xeon-gold-6148"),
    ),
    ShippedEstimator(
        "spmv-devices",
        partial(build.made, "slipstick.estimators.sparse.sparse_products:spmv_devices_estimator"),
        purpose="the same on GPUs and other machines",
        domain="GPUs and CPUs",
        error="mean 17 to 36 % of matrices on a device left out",
        board="spmv",
        fitted_for=(Domain(kinds=("sparse product",)),),
        why="sparse products as measured on other devices",
        example=Example("spmv-grid", "a100-sxm-80gb"),
    ),
    ShippedEstimator(
        "torch-program",
        partial(build.made, "slipstick.estimators.gpu.programs.torch_program:torch_program"),
        purpose="forward passes of PyTorch programs, eager or compiled",
        domain="GPUs, float32 as PyTorch computes it",
        error="median 12 % of programs left out, 17 % on a device left out",
        board="programs",
        source="times of KernelBench v0.1 on H100, L4 and L40S, and of timm's image networks in 16 bits",
        example=Example("mlp-inference", "h100-sxm", (("batch", 64),)),
    ),
    ShippedEstimator(
        "measure",
        partial(build.made, "slipstick.experiments.measure.clocks.measured_estimator:Clocked"),
        purpose="runs the kernels on this host",
        domain="this host",
        example=Example("vector-sum", "cloud-cascade-lake-host"),
    ),
    _threads(
        "phi-a",
        "a",
        "wider",
        "convolutional networks on a Xeon Phi, strategy (a) of the paper",
        "mean 15 % of the paper's measured times (Table IX)",
    ),
    _threads(
        "phi-b", "b", "wider", "the same, strategy (b)", "mean 7 to 16 % of the paper's measured times (Table IX)"
    ),
    _threads("threads-counted", "a", "oversubscribed", "threads that share images: instructions and contention", ""),
    _threads("threads-timed", "b", "oversubscribed", "the same from the times of one thread", ""),
    ShippedEstimator(
        "threads-nodes",
        partial(build.made, f"{STUDY}:several_nodes"),
        purpose="threads on several nodes that sum their weights over links",
        domain="machines with cores and a link",
        source=f"{VIEBKE}, Section VII",
        # no CPU of the catalogue states a link; a file of one's own does
        example=Example(
            "mlp",
            "a100-80-dgx",
            (
                ("nodes", 4),
                ("images", 100),
                ("threads", 8),
            ),
        ),
    ),
    ShippedEstimator(
        "phi-simulated",
        partial(build.made, f"{STUDY}:estimator", "simulated"),
        purpose="strategy (a) as a simulation, contention as measured",
        domain="Xeon Phi 7120P",
        source=f"{VIEBKE}, Figure 4 and Table IV",
        example=ON_PHI,
    ),
    ShippedEstimator(
        "phi-queue",
        partial(build.made, f"{STUDY}:estimator", "queue"),
        purpose="the same, contention as a queue at the memory",
        domain="Xeon Phi 7120P",
        error="|log| 0.1 to 1.7 at worst of Table IV's measured contention",
        source=f"{VIEBKE}, Figure 4 and Table IV",
        example=Example("phi-cnn-small", "xeon-phi-7120p", (("threads", 8),)),
    ),
)
