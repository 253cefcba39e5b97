// Kernels: the seconds of single operations on one processor, from their shapes.
#pragma once

#include <vector>

#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

enum class Math { kFp64, kFp32, kHalf, kFp8 };

// Arithmetic of products of elements of a type.
Math math_of(DType type);

// One or more equal kernels, started one after the other.
struct Kernel {
  enum class Kind {
    kGemm,       // `batch` products [m, k] x [k, n]
    kAttention,  // fused: `flops` as they are computed
    kStream,     // reads and writes `bytes`
    kOperator    // the same, as an operator of LibTorch instead of a kernel of ours
  };
  Kind kind = Kind::kStream;
  Math math = Math::kHalf;
  double m = 0, n = 0, k = 0, batch = 1;
  bool crosswise = false;  // operands lie across the inner dimension
  bool along = false;      // the right operand lies along it, as weights do in forward
  double flops = 0;
  double begun = 0;  // blocks of queries of attention, each with products of its own
  double bytes = 0;
  double count = 1;
};

Kernel gemm(Math math, double m, double n, double k, double batch = 1);
// A product of a linear layer, [rows, in] x [in, out]; it and the gradients of what it reads and of its weights.
Kernel product(Math math, double rows, double in, double out);
Kernel input_gradient(Math math, double rows, double in, double out);
Kernel weight_gradient(Math math, double rows, double in, double out);
Kernel attention(Math math, double flops);
// The kernel of ops/attention on CPUs for `rows` queries in sequences of `tokens`. It computes 64 queries of a head at
// a time, against the keys up to the last that one of them sees.
Kernel tiled_attention(Math math, double rows, double tokens, double heads, double width,
                       bool causal);
Kernel times(Kernel attention, double more);  // as much of it
// `kernels`: over how many the bytes are spread.
Kernel stream(double bytes, double kernels = 1);
Kernel operators(double bytes, double count);

// A product takes as many waves of tiles as the processor's units need for all of them. A wave takes as long as its
// inner dimension and a tile's beginning and end; the fastest of several tile shapes counts. It takes no less than
// moving its operands takes. Rows that are no multiple of 16 bytes use slower instructions.
double seconds(const Gpu& gpu, const Kernel& kernel);
double seconds(const Gpu& gpu, const std::vector<Kernel>& kernels);
double count(const std::vector<Kernel>& kernels);

// Seconds of one kernel, without its start.
double seconds(const ProductCurve& curve, double m, double n, double k);

// Throws Error{kUsage} if the processor has no products of bf16 and `type` is that.
void check_type(const Gpu& gpu, DType type);

// Peak rate in a data sheet. Throws Error{kUsage} for a type that the processor has no instructions for.
double peak(const Gpu& gpu, Math math);

}  // namespace trireme::planner
