"""TTIR for the background compiler: one kernel that every release compiles, and kernels that it refuses."""

STORE = """
module {
  tt.func public @store(%x: !tt.ptr<f32>) {
    %one = arith.constant 1.000000e+00 : f32
    tt.store %x, %one : !tt.ptr<f32>
    tt.return
  }
}
"""

_ASSEMBLY = """
module {{
  tt.func public @store(%x: !tt.ptr<f32>) {{
    %a = tt.load %x : !tt.ptr<f32>
    %b = tt.elementwise_inline_asm "{text}"
      {{constraints = "{constraints}", packed_element = 1 : i32, pure = true}} %a : f32 -> f32
    tt.store %x, %b : !tt.ptr<f32>
    tt.return
  }}
}}
"""

REFUSED_BY_PTXAS = _ASSEMBLY.format(text="max.f32 $0, $1, $1, $1;", constraints="=f,f")
"""On sm_90, where `max` takes two operands."""

CRASHES_LLVM = _ASSEMBLY.format(text="nonsense", constraints="=Q,~{")
"""Constraints that LLVM has no error for: it aborts the process (3.6 and 3.9)."""

REFUSED_BY_AMD = """
module {
  tt.func public @store(%x: !tt.ptr<f32>) {
    %a = tt.load %x : !tt.ptr<f32>
    %b = tt.extern_elementwise %a {libname = "", libpath = "", pure = true, symbol = "__nv_roundf"} : (f32) -> f32
    tt.store %x, %b : !tt.ptr<f32>
    tt.return
  }
}
"""
"""A function of NVIDIA's libdevice."""

REFUSED_BY_MLIR = """
module {
  tt.func public @store(%x: !tt.ptr<f32>, %y: !tt.ptr<f8E4M3FN>) {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %ys = tt.splat %y : !tt.ptr<f8E4M3FN> -> tensor<128x!tt.ptr<f8E4M3FN>>
    %from = tt.addptr %ys, %i : tensor<128x!tt.ptr<f8E4M3FN>>, tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %to = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %from : tensor<128x!tt.ptr<f8E4M3FN>>
    %w = tt.fp_to_fp %v : tensor<128xf8E4M3FN> -> tensor<128xf32>
    tt.store %to, %w : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
"""On sm_80, which has no float8."""
