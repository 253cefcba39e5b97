#include "trireme/planner/cost/layer_kernels.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "trireme/model/account/parts.h"
#include "trireme/model/account/work.h"

namespace trireme::planner {
namespace {

using model::Operation;
using What = Operation::What;

// Eager operators in four bytes an element.
constexpr double kWide = 4;
// Elementwise operators, by elements that they move of each.
struct Elementwise {
  double moved, kernels;
};
constexpr Elementwise kNoise = {35, 17};    // ops/aten/pointwise, mostly on integers
constexpr Elementwise kCap = {6, 3};        // division, tanh and product
constexpr Elementwise kCapSlope = {11, 5};  // 1 - (x / cap)^2 and its product with a gradient

class Lowering {
 public:
  Lowering(const Practice& practice, const NodeNumbers& numbers)
      : practice_(practice),
        numbers_(numbers),
        math_(math_of(numbers.type)),
        linear_(practice.fp8 && math_ == Math::kHalf ? Math::kFp8 : math_),
        attends_(numbers.spread && !practice.fuses_context ? AttentionKernel::kRows
                                                           : practice.attention),
        element_(static_cast<double>(size_of(numbers.type))) {}

  void add(const Operation& one);
  NodeKernels finish() &&;

 private:
  using Kernels = std::vector<Kernel>;
  // Queries of sequences, and what they see.
  struct Attended {
    double queries, sequence, keys, window, heads, width;
    bool causal, capped;
  };

  bool eager() const { return practice_.fusion == Fusion::kEager; }
  bool compiled() const { return practice_.fusion == Fusion::kCompiled; }
  double rows(const Operation& one) const { return numbers_.share * one.rows; }
  Kernels& part(std::string_view name);

  void linear(const Operation& one);
  void adapter(const Operation& one);
  void magnitude(const Operation& one);
  void logits(const Operation& one);
  void attention(const Operation& one);
  // Leave the gradients' in attention_input.
  Kernels in_rows(const Attended& all, bool drops);
  Kernels in_memory(const Attended& all, bool drops);
  void norm(const Operation& one);
  void activation(const Operation& one, const Elementwise& forward, const Elementwise& backward);
  void pass(const Operation& one, const Elementwise& forward, const Elementwise& backward);
  void rotation(const Operation& one);
  void sum(const Operation& one);
  void look_up(const Operation& one);
  void loss(const Operation& one);
  void cap_logits(double logits);
  void comparison(const Operation& one);
  void convert();

  const Practice& practice_;
  const NodeNumbers& numbers_;
  Math math_, linear_;
  AttentionKernel attends_;
  double element_;  // bytes of an activation
  NodeKernels node_;
  double trained_ = 0;  // elements of matrices
  // Numbers of the stream between nodes; whether the node reads it, and writes it.
  double stream_ = 0;
  bool reads_ = true, writes_ = true;
  int products_ = 0, matrices_ = 0;  // so far, and their matrices
  double cast_ = 0;                  // numbers that products read
  Kernels kept_;                     // products that torchtitan keeps
  bool keeps_last_ = false;
  std::optional<Kernel> last_product_, last_sum_;
};

Lowering::Kernels& Lowering::part(std::string_view name) {
  for (auto& [known, kernels] : node_.parts)
    if (known == name) return kernels;
  return node_.parts.emplace_back(name, Kernels{}).second;
}

// Of torchtitan's list of operators that a block keeps: every second product, of matrices as if each result had one.
// Products in fp8 are not in it.
void Lowering::linear(const Operation& one) {
  const double rows = this->rows(one), out = one.out();
  last_product_ = product(linear_, rows, one.in, out);
  node_.forward.push_back(*last_product_);
  node_.input.push_back(input_gradient(linear_, rows, one.in, out));
  double kept = 0;
  for (const double own : one.outs) kept += matrices_++ % 2 == 0 ? own : 0;
  keeps_last_ = kept > 0 && linear_ != Math::kFp8;
  if (keeps_last_) kept_.push_back(product(linear_, rows, one.in, kept));
  cast_ += rows * one.in;
  ++products_;
  if (one.wide) part(model::kMlp).push_back(*last_product_);
  if (!one.trains) return;
  node_.weight.push_back(weight_gradient(linear_, rows, one.in, out));
  trained_ += one.in * out;
  if (one.bias > 0) node_.weight.push_back(stream(numbers_.share * one.bias * element_));
}

// Two narrow products, of which the second adds to what the layer gives.
void Lowering::adapter(const Operation& one) {
  const double rows = this->rows(one), out = one.out();
  for (const auto& [in, to] : {std::pair(one.in, one.inner), std::pair(one.inner, out)}) {
    node_.forward.push_back(product(math_, rows, in, to));
    if (one.wide) part(model::kMlp).push_back(node_.forward.back());
    node_.input.push_back(input_gradient(math_, rows, in, to));
    node_.weight.push_back(weight_gradient(math_, rows, in, to));
  }
  node_.weight.push_back(added(practice_, numbers_, one.inner * (one.in + out)));
}

// In the type of sums: the weight with its adapter's product, and squares. Then all results; on the way back gradients.
void Lowering::magnitude(const Operation& one) {
  const double results = rows(one) * one.out(), elements = one.in * one.out();
  const std::vector<Kernel> forward = {product(Math::kFp32, one.out(), one.inner, one.in),
                                       stream(elements * (element_ + 5 * kWide), 4),
                                       stream(results * 2 * element_)};
  node_.forward.insert(node_.forward.end(), forward.begin(), forward.end());
  for (const Kernel& kernel : forward)
    if (one.wide) part(model::kMlp).push_back(kernel);
  node_.input.push_back(stream(results * (4 * element_ + kWide), 3));
}

void Lowering::logits(const Operation& one) {
  const double rows = this->rows(one), out = one.out();
  node_.forward.push_back(product(math_, rows, one.in, out));
  part(model::kLogits).push_back(node_.forward.back());
  node_.input.push_back(input_gradient(math_, rows, one.in, out));
  if (!one.trains) return;
  node_.weight.push_back(weight_gradient(math_, rows, one.in, out));
  trained_ += one.in * out;
}

// As ops/aten/attention: so many rows at a time that they have 2^26 scores, against keys up to the last that they see. All is
// in fp32, each elementwise operation has a kernel of its own.
Lowering::Kernels Lowering::in_rows(const Attended& all, bool drops) {
  constexpr double kScores = 1 << 26, kFewestRows = 16;
  constexpr Elementwise kForward = {10, 6}, kBackward = {15, 7}, kRecomputed = {3, 1};
  const double batch = all.queries / all.sequence * all.heads;
  const double most = std::max(kScores / (batch * all.keys), kFewestRows);
  const double blocks = std::ceil(all.sequence / most), rows = all.sequence / blocks;
  const double before = (all.causal ? (1 + 1 / blocks) / 2 : 1) * all.keys;
  const double keys = all.window > 0 ? std::min(before, rows + all.window) : before;
  const auto product = [&](double n, double k, double count) {
    Kernel one = gemm(Math::kFp32, rows, n, k, batch);
    one.count = count * blocks;
    return one;
  };
  const auto elementwise = [&](const Elementwise& one) {
    return stream(blocks * batch * rows * keys * kWide * one.moved, blocks * one.kernels);
  };
  Kernels& input = node_.attention_input;
  Kernels forward = {product(keys, all.width, 1), product(all.width, keys, 1),
                     elementwise(kForward)};
  input = {product(keys, all.width, 2), product(all.width, keys, 3), elementwise(kBackward)};
  if (all.capped) {
    forward.push_back(elementwise(kCap));
    input.insert(input.end(), {elementwise(kCap), elementwise(kCapSlope)});
  }
  if (drops) {
    forward.push_back(elementwise(kNoise));
    input.insert(input.end(), {elementwise(kNoise), elementwise(kRecomputed)});
  }
  return forward;
}

// With every key, whatever a window hides.
Lowering::Kernels Lowering::in_memory(const Attended& all, bool drops) {
  const double s = all.sequence, keys = all.keys, pairs = all.queries * keys * all.heads;
  const double batch = pairs / (s * keys), dropped = drops ? 2 * element_ + 1 : 0;
  Kernel narrow = gemm(math_, s, all.width, keys, batch);  // to values, queries and keys
  narrow.count = 3;
  node_.attention_input = {gemm(math_, s, keys, all.width, batch), narrow,
                           stream(pairs * (3 * element_ + dropped), 2)};
  Kernels forward = {gemm(math_, s, keys, all.width, batch),
                     stream(pairs * (2 * element_ + dropped), drops ? 2 : 1),
                     gemm(math_, s, all.width, keys, batch)};
  if (all.capped) {
    forward.push_back(stream(pairs * element_ * kCap.moved, kCap.kernels));
    node_.attention_input.push_back(stream(pairs * element_ * kCapSlope.moved, kCapSlope.kernels));
  }
  return forward;
}

// Queries against all keys: of each pair a product over the head's width, for scores and for what they weigh.
void Lowering::attention(const Operation& one) {
  const bool own = one.keys > 0, drops = practice_.dropout && one.drops;
  const double tokens = (own ? 1 : numbers_.share) * one.tokens;
  const Attended all{.queries = rows(one),
                     .sequence = tokens,
                     .keys = own ? one.keys : tokens,
                     .window = one.window,
                     .heads = one.heads,
                     .width = one.width,
                     .causal = practice_.causal && one.causal,
                     .capped = one.capped};
  const double scored = own ? one.keys : model::scored_tokens(tokens, one.window);
  Kernels forward;
  if (attends_ == AttentionKernel::kRows) {
    forward = in_rows(all, drops);
  } else if (attends_ == AttentionKernel::kUnfused) {
    forward = in_memory(all, drops);
  } else {
    // The first generation reaches half the rate.
    const double seen = (all.causal ? 0.5 : 1) * (attends_ == AttentionKernel::kFlash ? 2 : 1);
    const double flops = 4 * (all.queries * scored * all.heads) * all.width * seen;
    Kernel fused = planner::attention(math_, flops);
    if (attends_ == AttentionKernel::kTiles) {
      fused = tiled_attention(math_, all.queries, own ? tokens : scored, all.heads, all.width,
                              all.causal);
      if (own) fused.flops = flops;
      // A score's cap takes as long as so many operations of products.
      constexpr double kCapped = 40;
      if (all.capped) fused.flops *= 1 + kCapped / (4 * all.width);
    }
    forward = {fused};
    node_.attention_input = {times(fused, 2.5)};  // with the scores once more
  }
  node_.forward.insert(node_.forward.end(), forward.begin(), forward.end());
  node_.input.insert(node_.input.end(), node_.attention_input.begin(), node_.attention_input.end());
  part(model::kAttention) = std::move(forward);
}

// A norm reads and writes; eager operations keep nothing on the chip between them, and compute RMS norms in fp32.
void Lowering::norm(const Operation& one) {
  const bool slow = eager() && one.what == What::kRmsNorm;
  const double numbers = rows(one) * one.in, e = element_;
  const Kernel norm = stream(numbers * (slow ? 4 * e + 16 : 2 * e), slow ? 4 : 1);
  node_.forward.push_back(norm);
  part(model::kNorms).push_back(norm);
  node_.input.push_back(stream(numbers * (slow ? 8 * e + 16 : 5 * e), 2));
}

void Lowering::activation(const Operation& one, const Elementwise& forward,
                          const Elementwise& backward) {
  pass(one, forward, backward);
  part(model::kMlp).push_back(node_.forward.back());
}

void Lowering::pass(const Operation& one, const Elementwise& forward, const Elementwise& backward) {
  const double numbers = rows(one) * one.in * element_;
  node_.forward.push_back(stream(numbers * forward.moved, forward.kernels));
  node_.input.push_back(stream(numbers * backward.moved, backward.kernels));
}

void Lowering::rotation(const Operation& one) {
  const Elementwise turned{eager() ? 4 + 16 / element_ : 2, eager() ? 8.0 : 2.0};
  pass(one, turned, turned);
}

// Reads two and writes one; compiled, what it writes is normed at once.
void Lowering::sum(const Operation& one) {
  const double numbers = rows(one) * one.in, e = element_;
  const double mask =
      practice_.dropout && one.drops ? 1 : 0;  // bytes that dropout keeps an element
  last_sum_ = stream(numbers * ((compiled() ? 2 : 3) * e + mask));
  node_.forward.push_back(*last_sum_);
  node_.input.push_back(
      stream(numbers * ((compiled() ? 1 : 3) * e + (mask > 0 ? 2 * e + mask : 0)), 2));
  stream_ = numbers;
  if (mask > 0 && attends_ == AttentionKernel::kRows)
    for (Kernels* kernels : {&node_.forward, &node_.input})
      kernels->push_back(stream(numbers * kWide * kNoise.moved, kNoise.kernels));
}

void Lowering::look_up(const Operation& one) {
  const double numbers = rows(one) * one.in;
  node_.forward.push_back(stream(numbers * (practice_.dropout ? 4 : 2) * element_, 2));
  stream_ = numbers;
  reads_ = false;
  if (!one.trains) return;
  node_.weight.push_back(stream(numbers * 3 * element_, 2));
  trained_ += one.in * one.out();
}

// In place, and with the other gradients where a kernel does all at once.
void Lowering::cap_logits(double logits) {
  if (compiled() || attends_ == AttentionKernel::kTiles) {
    node_.forward.push_back(stream(logits * 2 * element_));
    return;
  }
  node_.forward.push_back(stream(logits * kCap.moved * element_, kCap.kernels));
  node_.input.push_back(stream(logits * (element_ + kWide * kCapSlope.moved), kCapSlope.kernels));
}

// The loss reads logits in fp32: the copy, the largest and the sum of their exponentials, and the gradient back.
void Lowering::loss(const Operation& one) {
  const double numbers = rows(one) * one.in, e = element_;
  const double logits = numbers_.share * one.tokens * one.out();
  node_.forward.push_back(stream(numbers * 2 * e));
  node_.forward.push_back(
      stream(logits * (compiled() ? 2 * e + 4 : e + 4 + 12), compiled() ? 2 : 4));
  node_.input.push_back(stream(logits * (compiled() ? 2 * e : 12 + e + 4), compiled() ? 1 : 3));
  node_.input.push_back(stream(numbers * 5 * e));
  if (one.capped) cap_logits(logits);
  stream_ = numbers;
  writes_ = false;
}

// A few numbers of each token, in fp64.
void Lowering::comparison(const Operation& one) {
  constexpr double kNumbers = 8 * 8, kGradients = 3 * 8;  // bytes of a token
  node_.forward.push_back(stream(rows(one) * kNumbers, 8));
  node_.input.push_back(stream(rows(one) * kGradients, 2));
}

// By numbers that they move of each.
void Lowering::add(const Operation& one) {
  constexpr Elementwise kOperators = {1, 15};
  const auto twice = [](const Elementwise& one) {
    return Elementwise{2 * one.moved, 2 * one.kernels};
  };
  switch (one.what) {
    case What::kProduct: return linear(one);
    case What::kAdapter: return adapter(one);
    case What::kMagnitude: return magnitude(one);
    case What::kLogits: return logits(one);
    case What::kAttention: return attention(one);
    case What::kLayerNorm:
    case What::kRmsNorm: return norm(one);
    case What::kActivation: return activation(one, {2, 1}, {3, 2});
    case What::kQuickGelu: return activation(one, {7, 3}, {13, 6});  // product, sigmoid, product
    case What::kGate:
      return eager() ? activation(one, {5, 2}, {9, 2}) : activation(one, {3, 1}, {5, 2});
    case What::kRotation: return rotation(one);
    // To pairs, negated, stacked, twice multiplied, added; and three copies before.
    case What::kSplitRotation: return pass(one, {16, 15}, {32, 30});
    case What::kSplit: return pass(one, {2, 2}, {2, 1});
    case What::kSum: return sum(one);
    case What::kLookUp: return look_up(one);
    case What::kLoss: return loss(one);
    case What::kComparison: return comparison(one);
    case What::kSmall: return pass(one, kOperators, twice(kOperators));
  }
}

// Of a node whose type differs from the others', what it reads and gives is converted, and so are gradients.
void Lowering::convert() {
  const Kernel one = stream(stream_ * (element_ + static_cast<double>(size_of(numbers_.between))));
  if (reads_) {
    node_.forward.push_back(one);
    node_.input.push_back(one);
  }
  if (writes_) {
    node_.forward.push_back(one);
    (reads_ ? node_.input : node_.weight).push_back(one);
  }
}

NodeKernels Lowering::finish() && {
  if (trained_ > 0) node_.weight.push_back(added(practice_, numbers_, trained_));
  if (numbers_.type != numbers_.between && stream_ > 0) convert();
  if (last_product_) node_.last = {*last_product_};
  if (practice_.fp8 && last_product_) {  // operands are scaled and cast, in both layouts
    node_.forward.push_back(stream(cast_ * (element_ + 2), products_));
    node_.last = {node_.forward.back()};  // kept in place of a product, as published steps fit best
  }
  if (last_sum_) node_.last.push_back(*last_sum_);
  if (practice_.keeps_operators && last_product_) {
    if (keeps_last_) kept_.pop_back();
    for (const Kernels& kept : {part(model::kAttention), kept_})
      node_.last.insert(node_.last.end(), kept.begin(), kept.end());
  }
  return typed(std::move(node_), math_);
}

}  // namespace

NodeKernels lower(const std::vector<Operation>& operations, const Practice& practice,
                  const NodeNumbers& numbers) {
  Lowering lowering(practice, numbers);
  for (const Operation& one : operations) lowering.add(one);
  return std::move(lowering).finish();
}

}  // namespace trireme::planner
