#include "trireme/planner/cost/layer_kernels.h"

#include <algorithm>
#include <cmath>

#include "trireme/config/families.h"
#include "trireme/config/head_width.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/account/work.h"

namespace trireme::planner {
namespace {

// A product of a linear layer, [rows, in] x [in, out], and its gradients'.
void add_linear(NodeKernels& node, Math math, double rows, double in, double out) {
  node.forward.push_back(gemm(math, rows, out, in));
  node.forward.back().along = true;
  node.input.push_back(gemm(math, rows, in, out));
  node.weight.push_back(gemm(math, out, in, rows));
  node.weight.back().crosswise = true;
}

model::PerRank in_type(const config::Job& job, DType type) {
  model::PerRank rank = model::per_rank(job);
  rank.compute = type;
  return rank;
}

struct Shape {
  Shape(const config::Job& job, const Practice& practice, const NodeForm& form)
      : model(job.model),
        practice(practice),
        layer(form.attends),
        sizes(job.model, in_type(job, form.type)),
        has(config::traits(config::info(job).decoder)),
        both_norms(job.llama.norms == config::NormPlaces::kBoth),
        tokens(static_cast<double>(sizes.tokens)),
        rows(static_cast<double>(sizes.rows)),
        d(static_cast<double>(sizes.d)),
        q(static_cast<double>(sizes.q)),
        kv(static_cast<double>(sizes.kv)),
        ffn(static_cast<double>(sizes.ffn)),
        vocab(static_cast<double>(sizes.vocab)),
        element(static_cast<double>(sizes.element)),
        sum(static_cast<double>(size_of(job.precision.grads.value()))),
        outside(static_cast<double>(size_of(job.precision.compute))),
        math(planner::math_of(form.type)),
        linear(practice.fp8 && math == Math::kHalf ? Math::kFp8 : math),
        attends(job.parallel.cp > 1 && !practice.fuses_context ? AttentionKernel::kRows
                                                               : practice.attention) {}

  const config::Model& model;
  const Practice& practice;
  config::LayerAttention layer;
  model::Sizes sizes;
  config::DecoderTraits has;
  bool both_norms;  // before and after branches
  double tokens, rows, d, q, kv, ffn, vocab;
  double element;  // bytes of an activation
  double sum;      // bytes of an element of summed gradients
  double outside;  // bytes of an activation between nodes
  Math math, linear;
  AttentionKernel attends;

  double up() const { return has.gated ? 2 * ffn : ffn; }  // features before the activation
  double norms() const { return both_norms ? 4 : 2; }
  double heads() const { return static_cast<double>(sizes.attention.heads); }
  double attended() const { return static_cast<double>(sizes.attention.tokens); }
  double width() const { return static_cast<double>(config::head_width(model)); }
  double seq() const { return static_cast<double>(model.seq_len); }
  // Tokens of a causal attention without a window and with as many scores.
  double scored() const { return model::scored_tokens(model.seq_len, layer.window); }
  bool eager() const { return practice.fusion == Fusion::kEager; }
  bool compiled() const { return practice.fusion == Fusion::kCompiled; }
  double mask() const { return practice.dropout ? 1 : 0; }  // bytes that dropout keeps an element

  // A gradient of a weight joins the sum of the step's.
  Kernel added(double weights) const {
    return stream(weights * (practice.adds_weight_gradients ? element + 2 * sum : sum));
  }
};

// Eager operators in four bytes an element, by elements that they move.
constexpr double kWide = 4;
struct Elementwise {
  double moved, kernels;
};
constexpr Elementwise kNoise = {35, 17};  // ops/aten/pointwise, mostly on integers

// As ops/aten/attention: so many rows at a time that they have 2^26 scores, against keys up to the last that they see. All is
// in fp32, each elementwise operation has a kernel of its own.
std::vector<Kernel> add_attention_rows(const Shape& shape, NodeKernels& node) {
  constexpr double kScores = 1 << 26, kFewestRows = 16;
  constexpr Elementwise kForward = {10, 6}, kBackward = {15, 7}, kRecomputed = {3, 1};
  const double batch = shape.attended() / shape.seq() * shape.heads();
  const double most = std::max(kScores / (batch * shape.seq()), kFewestRows);
  const double blocks = std::ceil(shape.seq() / most), rows = shape.seq() / blocks;
  const double before = (shape.practice.causal ? (1 + 1 / blocks) / 2 : 1) * shape.seq();
  const double keys = shape.layer.window > 0
                          ? std::min(before, rows + static_cast<double>(shape.layer.window))
                          : before;
  const auto product = [&](double n, double k, double count) {
    Kernel one = gemm(Math::kFp32, rows, n, k, batch);
    one.count = count * blocks;
    return one;
  };
  const auto elementwise = [&](const Elementwise& one) {
    return stream(blocks * batch * rows * keys * kWide * one.moved, blocks * one.kernels);
  };
  std::vector<Kernel> forward = {product(keys, shape.width(), 1), product(shape.width(), keys, 1),
                                 elementwise(kForward)};
  node.input.insert(node.input.end(), {product(keys, shape.width(), 2),
                                       product(shape.width(), keys, 3), elementwise(kBackward)});
  if (shape.practice.dropout) {
    forward.push_back(elementwise(kNoise));
    node.input.insert(node.input.end(), {elementwise(kNoise), elementwise(kRecomputed)});
  }
  return forward;
}

// Queries against all keys: of each pair a product over the head's width, for scores and for what they weigh.
void add_attention(const Shape& shape, NodeKernels& node) {
  std::vector<Kernel> forward;
  if (shape.attends == AttentionKernel::kRows) {
    forward = add_attention_rows(shape, node);
  } else if (shape.attends == AttentionKernel::kTiles) {
    forward = {tiled_attention(shape.math, shape.attended(), shape.scored(), shape.heads(),
                               shape.width(), shape.practice.causal)};
    node.input.push_back(times(forward[0], 2.5));
  } else if (shape.attends != AttentionKernel::kUnfused) {
    // The first generation reaches half the rate.
    const double seen =
        (shape.practice.causal ? 0.5 : 1) * (shape.attends == AttentionKernel::kFlash ? 2 : 1);
    const double pairs = shape.attended() * shape.scored() * shape.heads();
    const double flops = 4 * pairs * shape.width() * seen;
    forward = {attention(shape.math, flops)};
    node.input.push_back(attention(shape.math, 2.5 * flops));  // with the scores once more
  } else {
    // With every key, whatever a window hides.
    const double s = shape.seq(), pairs = shape.attended() * s * shape.heads();
    const double batch = pairs / (s * s), e = shape.element;
    const double dropped = shape.practice.dropout ? 2 * e + 1 : 0;
    forward = {gemm(shape.math, s, s, shape.width(), batch),
               stream(pairs * (2 * e + dropped), shape.practice.dropout ? 2 : 1),
               gemm(shape.math, s, shape.width(), s, batch)};
    node.input.push_back(gemm(shape.math, s, s, shape.width(), batch));
    Kernel narrow = gemm(shape.math, s, shape.width(), s, batch);  // to values, queries and keys
    narrow.count = 3;
    node.input.push_back(narrow);
    node.input.push_back(stream(pairs * (3 * e + dropped), 2));
  }
  node.forward.insert(node.forward.end(), forward.begin(), forward.end());
  node.parts.emplace_back(model::kAttention, std::move(forward));
}

// Bytes that elementwise operations move, of an element of a row, by how they are joined. A norm reads and writes; a
// residual addition reads two and writes one; eager operations keep nothing on the chip between them.
void add_elementwise(const Shape& shape, NodeKernels& node) {
  const double e = shape.element, mask = shape.mask();
  const double row = shape.rows * shape.d;
  double norm = 2 * e, residual = 3 * e + mask;
  if (shape.eager() && !shape.has.biased) norm = 4 * e + 16;  // through fp32
  if (shape.compiled()) residual -= e;                        // what it writes is normed at once
  const bool slow = shape.eager() && !shape.has.biased;
  const Kernel norms = stream(shape.norms() * row * norm, (slow ? 4 : 1) * shape.norms());
  const double inner = shape.tokens * shape.ffn;
  const double activated = shape.has.gated ? (slow ? 5 : 3) * e : 2 * e;
  const Kernel activation = stream(inner * activated, slow ? 2 : 1);
  node.forward.push_back(norms);
  node.forward.push_back(activation);
  node.parts.emplace_back(model::kNorms, std::vector{norms});
  node.parts.emplace_back(
      model::kMlp, std::vector{gemm(shape.linear, shape.tokens, shape.up(), shape.d), activation});
  node.forward.push_back(stream(2 * row * residual, 2));
  node.last.push_back(stream(row * residual));
  if (shape.practice.dropout && shape.attends == AttentionKernel::kRows)
    for (std::vector<Kernel>* kernels : {&node.forward, &node.input})
      kernels->push_back(stream(2 * row * kWide * kNoise.moved, 2 * kNoise.kernels));
  if (shape.has.rotary && shape.layer.rotary) {
    const double turned = shape.tokens * (shape.q + shape.kv);
    node.forward.push_back(
        stream(turned * (shape.eager() ? 4 * e + 16 : 2 * e), shape.eager() ? 8 : 2));
    node.input.push_back(
        stream(turned * (shape.eager() ? 4 * e + 16 : 2 * e), shape.eager() ? 8 : 2));
  }
  const double norm_back = (slow ? 8 * e + 16 : 5 * e);
  node.input.push_back(stream(shape.norms() * row * norm_back, 2 * shape.norms()));
  node.input.push_back(
      stream(2 * row * ((shape.compiled() ? 1 : 3) * e + (mask > 0 ? 2 * e + mask : 0)), 4));
  node.input.push_back(stream(inner * (shape.has.gated ? (shape.eager() ? 9 : 5) * e : 3 * e), 2));
  if (shape.has.biased)  // their gradients
    node.weight.push_back(
        stream(shape.tokens * (shape.q + 2 * shape.kv + shape.ffn) * e + 2 * row * e, 4));
}

// Operators of torchtitan's list that a block keeps: attention, and q, v, the first of the feed-forward part and its
// last. Products in fp8 are not in the list.
std::vector<Kernel> kept_operators(const Shape& shape, const NodeKernels& node) {
  std::vector<Kernel> kept;
  for (const auto& [name, part] : node.parts)
    if (name == model::kAttention) kept.insert(kept.end(), part.begin(), part.end());
  if (shape.linear == Math::kFp8) return kept;
  for (const double out : {shape.q + shape.kv, shape.ffn})
    kept.push_back(gemm(shape.linear, shape.tokens, out, shape.d));
  return kept;
}

NodeKernels block_kernels(const Shape& shape) {
  NodeKernels node;
  const double qkv = shape.q + 2 * shape.kv;
  const double up = shape.up();
  add_linear(node, shape.linear, shape.tokens, shape.d, qkv);
  add_linear(node, shape.linear, shape.tokens, shape.q, shape.d);
  add_linear(node, shape.linear, shape.tokens, shape.d, up);
  add_linear(node, shape.linear, shape.tokens, shape.ffn, shape.d);
  if (shape.practice.fp8)  // operands are scaled and cast, in both layouts
    node.forward.push_back(
        stream(shape.tokens * (2 * shape.d + shape.q + shape.ffn) * (shape.element + 2), 4));
  node.last = {node.forward.back()};
  const auto before = static_cast<std::ptrdiff_t>(node.input.size());
  add_attention(shape, node);
  node.attention_input.assign(node.input.begin() + before, node.input.end());
  add_elementwise(shape, node);
  node.weight.push_back(shape.added(shape.d * (qkv + shape.q + up + shape.ffn)));
  if (shape.practice.keeps_operators) {
    std::vector<Kernel> kept = kept_operators(shape, node);
    node.last.insert(node.last.end(), kept.begin(), kept.end());
  }
  return node;
}

// The loss reads logits in fp32: the copy, the largest and the sum of their exponentials, and the gradient back.
NodeKernels head_kernels(const Shape& shape) {
  NodeKernels node;
  const double logits = shape.tokens * shape.vocab, e = shape.element;
  add_linear(node, shape.math, shape.tokens, shape.d, shape.vocab);
  node.parts.emplace_back(model::kLogits, node.forward);
  node.forward.push_back(stream(shape.rows * shape.d * 2 * e));
  node.forward.push_back(
      stream(logits * (shape.compiled() ? 2 * e + 4 : e + 4 + 12), shape.compiled() ? 2 : 4));
  node.input.push_back(
      stream(logits * (shape.compiled() ? 2 * e : 12 + e + 4), shape.compiled() ? 1 : 3));
  node.input.push_back(stream(shape.rows * shape.d * 5 * e));
  node.weight.push_back(shape.added(shape.vocab * shape.d));
  return node;
}

NodeKernels embed_kernels(const Shape& shape) {
  NodeKernels node;
  const double row = shape.rows * shape.d;
  node.forward.push_back(stream(row * (2 * shape.element + 2 * shape.element * shape.mask()), 2));
  node.weight.push_back(stream(row * 3 * shape.element, 2));
  node.weight.push_back(shape.added(shape.vocab * shape.d));
  return node;
}

// A loss of answers: a few numbers of each token, in fp64.
NodeKernels preference_kernels(const Shape& shape) {
  constexpr double kNumbers = 8 * 8, kGradients = 3 * 8;  // bytes of a token
  NodeKernels node;
  node.forward.push_back(stream(shape.tokens * kNumbers, 8));
  node.input.push_back(stream(shape.tokens * kGradients, 2));
  return node;
}

// Inputs and results of a node whose type differs from the others' are converted, and so are their gradients.
void add_conversions(const Shape& shape, NodeKind kind, NodeKernels& node) {
  const Kernel one = stream(shape.rows * shape.d * (shape.element + shape.outside));
  if (kind != NodeKind::kEmbed) {
    node.forward.push_back(one);
    node.input.push_back(one);
  }
  if (kind != NodeKind::kHead) {
    node.forward.push_back(one);
    (kind == NodeKind::kEmbed ? node.weight : node.input).push_back(one);
  }
}

// An adapter of a linear layer: two narrow products, of which the second adds to what the layer gives.
void add_adapter(const Shape& shape, double rank, double in, double out, NodeKernels& node) {
  add_linear(node, shape.math, shape.tokens, in, rank);
  add_linear(node, shape.math, shape.tokens, rank, out);
  node.weight.push_back(shape.added(rank * (in + out)));
}

void add_adapters(const Shape& shape, const config::Lora& lora, NodeKernels& node) {
  const auto rank = static_cast<double>(lora.rank);
  const auto adapt = [&](double in, double out) { add_adapter(shape, rank, in, out, node); };
  using enum config::LoraTargets;
  if (lora.targets == kQueryValue)
    for (const double out : {shape.q, shape.kv}) adapt(shape.d, out);
  if (lora.targets == kAll || lora.targets == kAttention) {
    if (!shape.has.fused_heads)
      for (const double out : {shape.q, shape.kv, shape.kv}) adapt(shape.d, out);
    else
      adapt(shape.d, shape.q + 2 * shape.kv);
    adapt(shape.q, shape.d);
  }
  if (lora.targets == kAll || lora.targets == kMlp) {
    const std::size_t before = node.forward.size();
    for (int layer = 0; layer < (shape.has.gated ? 2 : 1); ++layer) adapt(shape.d, shape.ffn);
    for (auto& [name, part] : node.parts)
      if (name == model::kMlp)
        part.insert(part.end(), node.forward.begin() + static_cast<std::ptrdiff_t>(before),
                    node.forward.end());
    adapt(shape.ffn, shape.d);
  }
}

}  // namespace

NodeKernels typed(NodeKernels node, Math math) {
  const auto type = [&](std::vector<Kernel>& kernels) {
    for (Kernel& kernel : kernels)
      if (kernel.kind == Kernel::Kind::kStream) kernel.math = math;
  };
  type(node.forward);
  type(node.input);
  type(node.weight);
  type(node.attention_input);
  type(node.last);
  for (auto& [name, part] : node.parts) type(part);
  return node;
}

NodeKernels node_kernels(const config::Job& job, const Practice& practice, const NodeForm& form) {
  const Shape shape(job, practice, form);
  if (form.kind == NodeKind::kPreference) return typed(preference_kernels(shape), shape.math);
  NodeKernels node = form.kind == NodeKind::kEmbed  ? embed_kernels(shape)
                     : form.kind == NodeKind::kHead ? head_kernels(shape)
                                                    : block_kernels(shape);
  if (!form.trains) node.weight.clear();
  if (form.kind == NodeKind::kBlock && job.lora.rank > 0) add_adapters(shape, job.lora, node);
  if (form.type != job.precision.compute) add_conversions(shape, form.kind, node);
  return typed(std::move(node), shape.math);
}

}  // namespace trireme::planner
