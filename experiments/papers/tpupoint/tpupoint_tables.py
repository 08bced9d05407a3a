"""Tables of TPUPoint (ISPASS 2021) as data: I (workloads), II (totals of the top-five operators), and quoted
averages.
"""

from __future__ import annotations

from dataclasses import dataclass

ALGORITHMS = 3


@dataclass(frozen=True)
class PaperWorkload:
    """A row of Table I: sizes as printed, in bytes; what the table does not give is None."""

    model: str
    data: str
    dataset_bytes: float
    batch: int
    steps: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    analysed_by: int = ALGORITHMS
    """k-means and DBSCAN run out of memory on RetinaNet and ResNet (Section VI-B)."""


MIB, GIB = 2**20, 2**30
TABLE_I = (
    PaperWorkload("BERT", "MRPC", 2.85 * MIB, 32, epochs=3),
    PaperWorkload("BERT", "SQuAD", 422.27 * MIB, 32, epochs=3),
    PaperWorkload("BERT", "CoLA", 1.44 * MIB, 32, epochs=3),
    PaperWorkload("BERT", "MNLI", 430.61 * MIB, 32, epochs=3),
    PaperWorkload("DCGAN", "CIFAR10", 178.87 * MIB, 1024, steps=10_000),
    PaperWorkload("DCGAN", "MNIST", 56.21 * MIB, 1024, steps=10_000),
    PaperWorkload("QANet", "SQuAD", 422.27 * MIB, 32, epochs=5, steps_per_epoch=20_000),
    PaperWorkload("RetinaNet", "COCO", 48.49 * GIB, 64, epochs=15, analysed_by=1),
    PaperWorkload("ResNet-50", "ImageNet", 143.38 * GIB, 1024, steps=112_590, analysed_by=1),
)
IDLE_PERCENT = {"v2": 38.90, "v3": 43.53}
MXU_PERCENT = {"v2": 22.72, "v3": 11.34}
TABLE_II_HOST = {  # operator: how often among the top five, on v2 and on v3
    "OutfeedDequeueTuple": (21, 17),
    "TransferBufferToInfeedLocked": (19, 17),
    "RunGraph": (15, 9),
    "Send": (10, 9),
    "LinearizeX32": (9, 15),
    "LSRAv2": (8, 9),
    "InfeedEnqueueTuple": (8, 8),
    "InitializeHostForDistributedTpu": (7, 3),
    "RestoreV2": (4, 6),
    "DisconnectHostFromDistributedTPUSystem": (4, 0),
    "ReadHbm": (3, 1),
    "Recv": (1, 1),
    "Maximum": (1, 1),
    "Minimum": (1, 0),
    "Sub": (1, 1),
    "Cast": (1, 1),
    "DecodeAndCropJpeg": (1, 1),
    "ResizeBicubic": (1, 1),
    "StartProgram": (0, 12),
    "BuildPaddedOutput": (0, 3),
}
TABLE_II_TPU = {
    "fusion": (23, 23),
    "MatMul": (15, 15),
    "Reshape": (15, 18),
    "L2Loss": (12, 12),
    "Conv2DBackpropFilter": (8, 4),
    "Mul": (6, 6),
    "Transpose": (6, 6),
    "BiasAddGrad": (6, 6),
    "Conv2DBackpropInput": (6, 3),
    "FusedBatchNormV3": (5, 3),
    "Infeed": (3, 6),
    "all-reduce": (3, 3),
    "Sum": (3, 3),
    "Copy": (1, None),
    "InfeedDequeueTuple": (1, None),
    "FusedBatchNormGradV3": (1, 2),
    "Relu": (1, 1),
}
IMAGENET_TRAINING_IMAGES = 1_281_167
