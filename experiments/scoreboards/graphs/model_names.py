"""Names of image models in the published table of parameters and FLOPs, as pytorchcv's own names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

SUFFIX: Mapping[str, str] = {
    "ImageNet-1K": "",
    "CIFAR-10": "_cifar10",
    "CIFAR-100": "_cifar100",
    "SVHN": "_svhn",
    "CUB-200-2011": "_cub",
}


_WIDTH: Mapping[str, str] = {
    "0.2": "wd5",
    "0.25": "wd4",
    "0.5": "wd2",
    "0.75": "w3d4",
    "1.0": "w1",
    "1.25": "w5d4",
    "1.5": "w3d2",
    "2.0": "w2",
}


def _regnet(m: re.Match[str]) -> str:
    hundreds = round(float(m[2]) * (1 if m[3] == "M" else 1000) / 100)
    return f"regnet{m[1].lower()}{hundreds:03d}"


# Families whose printed names do not follow from pytorchcv's by dropping spaces and dashes.
_FAMILIES: Mapping[str, Callable[[re.Match[str]], str]] = {
    r"PyramidNet-(\d+) \(a=(\d+).*": lambda m: f"pyramidnet{m[1]}_a{m[2]}" + ("_bn" if int(m[1]) > 110 else ""),
    r"(X-)?DenseNet-BC-(\d+)(-\d)? \(k=(\d+)\)": lambda m: (
        f"{'x' if m[1] else ''}densenet{m[2]}{(m[3] or '').replace('-', '_')}_k{m[4]}_bc"
    ),
    r"CondenseNet-74 \(C=G=(\d)\)": lambda m: f"condensenet74_c{m[1]}_g{m[1]}",
    r"Air(Ne[Xx]?t)(\d+)-(\w+) \(r=(\d+)\)": lambda m: f"air{m[1].lower()}{m[2]}_{m[3]}_r{m[4]}",
    r"RegNet([XY])-([\d.]+)([MG])F": _regnet,
    r"(\d+)-MENet-(\d+)x1 \(g=(\d)\)": lambda m: f"menet{m[1]}_{m[2]}x1_g{m[3]}",
    r"([\d.]+)-SqNxt-23(v5)?": lambda m: f"sqnxt23{m[2] or ''}_{_WIDTH.get(m[1], '?')}",
    r"ShuffleNet x([\d.]+) \(g=(\d)\)": lambda m: f"shufflenet_g{m[2]}_{_WIDTH.get(m[1], '?')}",
    r"WRN-(\d+)-(\d+)": lambda m: f"wrn{m[1]}_{m[2]}",
    r"RoR-3-(\d+)": lambda m: f"ror3_{m[1]}",
    r"Shake-Shake-ResNet-(\d+)-(\w+)": lambda m: f"shakeshakeresnet{m[1]}_{m[2]}",
    r"DLA-X(\d?)-(\d+)(-C)?": lambda m: f"dla{m[2]}x{m[1]}{(m[3] or '')[1:].lower()}",
    r"DRN-([CD])-(\d+)": lambda m: f"drn{m[1].lower()}{m[2]}",
    r"MobileNetV3 ([LS])/224/([\d.]+)": lambda m: (
        f"mobilenetv3_{'large' if m[1] == 'L' else 'small'}_{_WIDTH.get(m[2], '?')}"
    ),
    r"HRNetV2-W(\d+)": lambda m: f"hrnetv2_w{m[1]}",
    r"HRNet-W(\d+) Small V(\d)": lambda m: f"hrnet_w{m[1]}_small_v{m[2]}",
    r"NASNet-A (\d)@(\d+)": lambda m: f"nasnet_{m[1]}a{m[2]}",
    r"PNASNet-5-Large": lambda m: "pnasnet5large",
    r"DiracNetV2-(\d+)": lambda m: f"diracnet{m[1]}v2",
    r"ResNe(S?)t\(([AD])\)-(BC-)?(\d+)(b?)": lambda m: (
        f"resne{m[1].lower()}t{m[2].lower()}{'bc' if m[3] else ''}{m[4]}{m[5]}"
    ),
}


def model_name(section: str, printed: str) -> str | None:
    """The name in pytorchcv of a printed name in a section (a data set); None where the section has no such rule.

    The rule knows nothing of parameters or FLOPs. Whether pytorchcv has the name is for the caller to see.
    """
    if section not in SUFFIX:
        return None
    name = printed.strip().strip('"').rstrip("*").strip()
    for pattern, make in _FAMILIES.items():
        match = re.fullmatch(pattern, name)
        if match:
            return make(match) + SUFFIX[section]
    name = name.lower()
    name = re.sub(r" \((\d+x\d+d)\)", r"_\1", name)
    name = re.sub(r" x([\d.]+)$", lambda m: "_" + _WIDTH.get(m[1], "?"), name)
    name = re.sub(r" v(\d)\.(\d)", r"_v\1_\2", name).replace("(bn)", "bn")
    name = re.sub(r"^ibn\(b\)-", "ibnb_", name)
    name = re.sub(r"^(ibn|bam|cbam|bn)-", r"\1_", name)
    name = re.sub(r"^efficientnet-(b\d|edge)", r"efficientnet_\1", name)
    name = re.sub(r"edge-(\w+)-b$", r"edge_\1_b", name)
    name = re.sub(r"^(mixnet|mnasnet)-", r"\1_", name)
    name = re.sub(r"[- ]", "", "nin" if name.startswith("nin") else name)
    return name + SUFFIX[section]
