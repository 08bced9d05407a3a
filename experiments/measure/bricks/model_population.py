"""The models that imports are tried on: images of pytorchcv, language of transformers, and small ones here.

Both collections are development extras; nothing is downloaded, weights are never made.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstick.common.lazy_packages import torch
from slipstick.workloads.importers.torch.arguments import Input

Inputs = Sequence[Input] | Mapping[str, Input]


@dataclass(frozen=True)
class Entry:
    """One model: what makes it, and what it is given (names in shapes become symbols)."""

    name: str
    task: str
    make: Callable[[], Any]
    inputs: Inputs
    hints: Mapping[str, int]

    def build(self) -> Any:
        """The model, on the meta device."""
        with torch.device("meta"):
            return self.make()


def pytorchcv_model(name: str) -> Any:
    """A model of pytorchcv by name, on the meta device.

    Its provider imports torchvision for one model that is not used here, and torchvision does not work beside torch's
    CPU build; an empty stand-in is lent to that one import.
    """

    lent = "torchvision" not in sys.modules
    if lent:
        package, ops = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
        ops.DeformConv2d = torch.nn.Module  # type: ignore[attr-defined]
        sys.modules |= {"torchvision": package, "torchvision.ops": ops}
    try:
        from pytorchcv.model_provider import get_model
    finally:
        if lent:
            del sys.modules["torchvision"], sys.modules["torchvision.ops"]
    with torch.device("meta"):
        return get_model(name, pretrained=False)


# Names of pytorchcv by task, with the side of the square input, or height and width.
_PYTORCHCV: Mapping[str, tuple[str, tuple[int, int]]] = {
    "classification": (
        """
        alexnet vgg16 bn_vgg13 resnet18 resnet50 resnet50b resnet101 preresnet18 resnext50_32x4d seresnet50 senet28
        ibn_resnet50 bam_resnet18 cbam_resnet18 sknet50 scnet50 regnetx002 regnety002 densenet121
        condensenet74_c4_g4 peleenet drnc26 dpn68 darknet53 bagnet9 dla34 hrnet_w18_small_v1 vovnet27s
        selecsls42 hardnet39ds squeezenet_v1_0 sqnxt23_w1 shufflenet_g3_w1 shufflenetv2_w1 menet108_8x1_g3
        mobilenet_w1 fdmobilenet_w1 mobilenetv2_w1 mobilenetv3_large_w1 igcv3_w1 ghostnet mnasnet_b1
        proxylessnas_cpu xception inceptionv3 inceptionv4 efficientnet_b0 mixnet_s resnesta18
        """,
        (224, 224),
    ),
    "segmentation": (
        "fcn8sd_resnetd50b_voc pspnet_resnetd50b_voc deeplabv3_resnetd50b_voc danet_resnetd50b_cityscapes",
        (480, 480),
    ),
    "street segmentation": ("enet_cityscapes linknet_cityscapes unet_cityscapes", (1024, 2048)),
    "fast segmentation": ("fastscnn_cityscapes", (1024, 1024)),
    "pose": ("lwopenpose2d_mobilenet_cmupan_coco ibppose_coco", (256, 256)),
}


def population() -> list[Entry]:
    """All entries: over eighty, of classification, segmentation, detection, generation, regression and language."""
    entries = []
    for task, (names, (height, width)) in _PYTORCHCV.items():
        for name in names.split():
            side = {"xception": 299, "inceptionv3": 299, "inceptionv4": 299}.get(name)
            image = Input(("batch", 3, side or height, side or width))
            entries.append(Entry(name, task, lambda name=name: pytorchcv_model(name), [image], {}))  # type: ignore[misc]
    return [*entries, *_own(), *_language()]


def _own() -> list[Entry]:
    from slipstick.experiments.measure.bricks import small_models as models

    image = [Input(("batch", 3, 128, 128))]
    words = [Input(("batch", "seq_len"), "int64")]
    return [
        Entry("dcgan-generator", "generation", models.dcgan_generator, [Input(("batch", 100, 1, 1))], {}),
        Entry("dcgan-discriminator", "generation", models.dcgan_discriminator, [Input(("batch", 3, 64, 64))], {}),
        Entry("cyclegan-generator", "generation", models.cyclegan_generator, image, {}),
        Entry("srcnn", "regression", models.srcnn, [Input(("batch", 1, 128, 128))], {}),
        Entry("vdsr", "regression", models.vdsr, [Input(("batch", 1, 128, 128))], {}),
        Entry("retinanet", "detection", models.retinanet, [Input(("batch", 3, 256, 256))], {}),
        Entry("lstm-language-model", "recurrent", lambda: models.language_model("LSTM"), words, {}),
        Entry("gru-language-model", "recurrent", lambda: models.language_model("GRU"), words, {}),
        Entry("deepspeech2", "recurrent", models.deepspeech2, [Input(("batch", 1, 161, "seq_len"))], {"seq_len": 83}),
        Entry("seq2seq", "recurrent", models.seq2seq, [*words, *words], {}),
        Entry("qanet-block", "transformer", models.qanet_block, [Input(("batch", "seq_len", 128))], {}),
        Entry("mlp", "regression", models.mlp, [Input(("batch", 784))], {}),
    ]


# Family of transformers: (configuration, model, changes of the configuration, what it is given).
_LANGUAGE: Mapping[str, tuple[str, str, Mapping[str, Any], str]] = {
    "bert-base": ("BertConfig", "BertForMaskedLM", {}, "words"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"use_cache": False}, "words"),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM", {}, "words"),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", {"num_hidden_layers": 4}, "words"),
    "albert": (
        "AlbertConfig",
        "AlbertForMaskedLM",
        {"num_hidden_layers": 4, "hidden_size": 768, "num_attention_heads": 12},
        "words",
    ),
    "electra": ("ElectraConfig", "ElectraForMaskedLM", {"num_hidden_layers": 4}, "words"),
    "opt": ("OPTConfig", "OPTForCausalLM", {"num_hidden_layers": 4, "use_cache": False}, "words"),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {"num_hidden_layers": 4, "use_cache": False}, "words"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"num_hidden_layers": 4, "use_cache": False}, "words"),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"num_hidden_layers": 4, "use_cache": False}, "words"),
    "bloom": ("BloomConfig", "BloomForCausalLM", {"n_layer": 4, "hidden_size": 256, "use_cache": False}, "words"),
    "t5": ("T5Config", "T5ForConditionalGeneration", {"use_cache": False}, "pairs"),
    "bart": (
        "BartConfig",
        "BartForConditionalGeneration",
        {"use_cache": False, "encoder_layers": 4, "decoder_layers": 4},
        "words",
    ),
    "vit": ("ViTConfig", "ViTForImageClassification", {}, "image"),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification", {}, "image"),
    "swin": ("SwinConfig", "SwinForImageClassification", {}, "image"),
}


def transformers_model(configuration: str, model: str, changes: Mapping[str, Any]) -> Any:
    """A model of transformers by the names of its classes, its attention unfused."""
    import transformers

    config = getattr(transformers, configuration)(**changes)
    return getattr(transformers, model)._from_config(config, attn_implementation="eager")


def _language() -> list[Entry]:
    words = Input(("batch", "seq_len"), "int64")
    given: dict[str, Mapping[str, Input]] = {
        "words": {"input_ids": words},
        "pairs": {"input_ids": words, "decoder_input_ids": words},
        "image": {"pixel_values": Input(("batch", 3, 224, 224))},
    }
    return [
        Entry(name, "transformer", lambda c=config, m=model, k=changes: transformers_model(c, m, k), given[what], {})  # type: ignore[misc]
        for name, (config, model, changes, what) in _LANGUAGE.items()
    ]
