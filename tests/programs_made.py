# ruff: noqa: E501 - lines as the tools write them
"""StableHLO programs, in the short and in the generic form."""

from __future__ import annotations

STABLEHLO = """module @jit_step attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<8x32x32x3xf32>, %arg1: tensor<3x3x3x16xf32>, %arg2: tensor<16x10xf32>) -> (tensor<8x10xf32> {jax.result_info = ""}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convolution(%arg0, %arg1)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [2, 2], pad = [[0, 1], [0, 1]], rhs_dilate = [1, 1]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x32x32x3xf32>, tensor<3x3x3x16xf32>) -> tensor<8x16x16x16xf32>
    %1 = call @relu(%0) : (tensor<8x16x16x16xf32>) -> tensor<8x16x16x16xf32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1, 2] : (tensor<8x16x16x16xf32>, tensor<f32>) -> tensor<8x16xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x10xf32>) -> tensor<8x10xf32>
    return %3 : tensor<8x10xf32>
  }
  func.func private @relu(%arg0: tensor<8x16x16x16xf32>) -> tensor<8x16x16x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16x16x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x16x16x16xf32>
    return %1 : tensor<8x16x16x16xf32>
  }
}
"""
GENERIC = """"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4x6x8xbf16>, %arg1: tensor<4x8x5xbf16>):
    %0 = "stablehlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>} : (tensor<4x6x8xbf16>, tensor<4x8x5xbf16>) -> tensor<4x6x5xbf16>
    %1 = "stablehlo.all_reduce"(%0) ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = "stablehlo.add"(%a, %b) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
      "stablehlo.return"(%s) : (tensor<bf16>) -> ()
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<4x6x5xbf16>) -> tensor<4x6x5xbf16>
    "func.return"(%1) : (tensor<4x6x5xbf16>) -> ()
  }) {function_type = (tensor<4x6x8xbf16>, tensor<4x8x5xbf16>) -> tensor<4x6x5xbf16>, sym_name = "main"} : () -> ()
}) : () -> ()
"""
