#include "trireme/planner/cost/program_kernels.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

// What is looked up or convolved is no product.
bool is_linear(const model::ParamSpec& param) {
  return param.shape.size() > 1 && param.shape.front() > 1 && param.name.ends_with(".weight") &&
         param.name.find("embedding") == param.name.npos &&
         param.name.find("conv1d") == param.name.npos;
}

// The third value of a block that attends to rows elsewhere; these rows differ from the block's own.
bool is_of_seen(const model::ParamSpec& param) {
  return param.name.ends_with(".attn.to_kv.weight");
}

// Heads that a layer reads side by side, as tensor parallelism cuts it; 0: it is not cut by heads.
double heads_read(const model::ParamSpec& param) {
  if (param.cut.dim != 1 || param.cut.segments.empty() || param.cut.segments[0].size == 1) return 0;
  return static_cast<double>(param.cut.segments[0].granules);
}

bool is_norm(const model::ParamSpec& param) {
  return param.shape.size() == 1 && param.name.ends_with(".weight");
}

// The job without the features that a plan leaves out, for names and shapes alone.
config::Job plain(config::Job job) {
  job.recompute = {};
  job.parallel.costs.clear();
  return job;
}

BlockExtra block_extra(const config::Job& job) {
  BlockExtra more;
  if (const auto& own = family_prices(job.model.family).extra) return *own;
  if (job.vision.activation == config::Activation::kQuickGelu)
    more = {.activated = 5, .operations = 2};  // a product, a sigmoid, a product
  if (job.vision.positions != config::Positions::kLearned) {
    more.turned =
        32;  // of two: to pairs, negated, stacked, twice multiplied, added; and three copies before
    more.operations += 15;
  }
  return more;
}

// Expected rows if a row has space for many more images than expected, from the bytes that count; else from its shape.
double rows_of(const plan::Value& value, const config::Job& job) {
  if (config::crosses(job))
    return static_cast<double>(value.bytes) /
           static_cast<double>(value.shape.back() *
                               static_cast<std::int64_t>(size_of(job.precision.compute)));
  double rows = 1;
  for (std::size_t dim = 0; dim + 1 < value.shape.size(); ++dim)
    rows *= static_cast<double>(value.shape[dim]);
  return rows;
}

}  // namespace

struct ProgramKernels::Layers {
  struct Linear {
    double in, out;
    bool trains;
    bool seen;
    double heads;  // that it reads side by side; 0: it is not cut by heads
  };
  std::vector<Linear> linear;
  double weights = 0;    // elements of all of them
  double of_seen = 0;    // of these, in layers of what is seen
  double norms = 0;      // gains
  double biases = 0;     // elements of vectors that train
  double inner = 0;      // features that the last layer of a block reads
  double activated = 0;  // numbers that the activation reads for each

  // Attention of a block's rows, of so many operations without what the mask hides. Of the tokens of sequences that the
  // block's value names `share` is expected; where rows are packed, operations say how many they are.
  Kernel tiles(Math math, double rows, double operations, double share,
               const std::vector<std::int64_t>& shape, bool causal) const {
    constexpr double kWidth = 64;  // of a head, where all ranks have all of them
    const auto cut = std::ranges::find_if(linear, [](const Linear& l) { return l.heads > 0; });
    const double inner = cut != linear.end() ? cut->in : linear[1].in;
    const double heads = cut != linear.end() ? cut->heads : std::ceil(inner / kWidth);
    const double keys = std::max(operations / (4 * rows * inner), 1.0);
    const double tokens =
        shape.size() > 2 ? share * static_cast<double>(shape[1]) : keys * (causal ? 2 : 1);
    Kernel kernel =
        tiled_attention(math, rows, tokens, heads, inner / heads, 4 * keys < 3 * tokens);
    if (of_seen > 0) kernel.flops = operations;
    return kernel;
  }
};

ProgramKernels::ProgramKernels(const config::Job& job, const Practice& practice)
    : job_(job),
      practice_(practice),
      model_(model::describe(plain(job))),
      flow_(plan::gradient_flow(model_.program)),
      shares_(job),
      types_(job.precision.compute, job.precision.nodes) {
  for (std::size_t n = 0; n < model_.program.nodes.size(); ++n)
    nodes_.emplace(model_.program.nodes[n].name, n);
  if (config::info(job).decoder != config::DecoderBlock::kNone) {
    decoder_ = job;
    decoder_->model.family = config::decoder_alone(job.model.family);
    decoder_->parallel.sequence_parallel = false;
  }
}

bool ProgramKernels::decodes(const std::string& node) const {
  return decoder_ && (node == "head" || node.starts_with("block."));
}

DType ProgramKernels::type_of(const std::string& node) const {
  const plan::Node& own = model_.program.nodes[nodes_.at(node)];
  for (const plan::UnitId unit : own.units)
    if (const auto& type = model_.program.units[unit].type) return *type;
  return types_.of(node);
}

NodeKernels ProgramKernels::of(const std::string& node) const {
  NodeKernels kernels = decodes(node)
                            ? node_kernels(*decoder_, practice_, NodeForms(*decoder_).of(node))
                            : program_node(nodes_.at(node));
  const auto small_operators = family_prices(job_.model.family).small_operators;
  if (practice_.attention != AttentionKernel::kTiles || small_operators == nullptr) return kernels;
  SmallOperators small = small_operators(job_, node);
  std::ranges::move(small.forward, std::back_inserter(kernels.forward));
  std::ranges::move(small.backward, std::back_inserter(kernels.input));
  return kernels;
}

ProgramKernels::Layers ProgramKernels::layers_of(std::size_t node) const {
  Layers layers;
  const int tp = job_.parallel.tp;
  for (const model::ParamRef& ref : model_.node_params[node]) {
    const auto unit = static_cast<std::size_t>(ref.unit);
    const model::ParamSpec& param = model_.units[unit].params[ref.param];
    const bool trains = model_.program.units[unit].trainable;
    const model::LocalParam local = model::local_param(param, 0, tp);
    const auto numel = static_cast<double>(local.numel());
    layers.norms += is_norm(param);
    if (param.shape.size() == 1 && trains) layers.biases += numel;
    if (!is_linear(param)) continue;
    const auto out = static_cast<double>(local.shape.front());
    if (!layers.linear.empty()) layers.activated = layers.linear.back().out;
    layers.linear.push_back({.in = numel / out,
                             .out = out,
                             .trains = trains,
                             .seen = is_of_seen(param),
                             .heads = heads_read(param) / tp});
    layers.weights += numel;
    if (layers.linear.back().seen) layers.of_seen += numel;
  }
  if (layers.linear.size() > 2) layers.inner = layers.linear.back().in;
  return layers;
}

ProgramKernels::Expected ProgramKernels::expected(std::size_t index, const Layers& layers) const {
  const plan::Node& node = model_.program.nodes[index];
  const double share = shares_.of(node.name), counted = shares_.counted() ? 1 : share;
  const auto value = [&](plan::ValueId id) -> const plan::Value& {
    return model_.program.values[id];
  };
  Expected own{.block = !node.loss && layers.linear.size() > 1 &&
                        !value(node.reads[0]).shape.empty() &&
                        value(node.reads[0]).shape == value(node.writes[0]).shape};
  if (own.block) {
    own.rows = share * rows_of(value(node.reads[0]), job_);
    if (layers.of_seen > 0) own.seen = rows_of(value(node.reads[2]), job_);
    const double products =
        2 * (own.rows * (layers.weights - layers.of_seen) + own.seen * layers.of_seen) / counted;
    own.attended = std::max(node.flops - products, 0.0) * counted * counted;
  } else if (layers.weights > 0) {
    own.rows = node.flops * counted / (2 * layers.weights);
  } else if (node.loss) {
    own.attended = node.flops;
  }
  return own;
}

double ProgramKernels::flops_of(const std::string& node) const {
  const std::size_t index = nodes_.at(node);
  if (decodes(node)) return model_.program.nodes[index].flops;
  const Layers layers = layers_of(index);
  const Expected own = expected(index, layers);
  return 2 * (own.rows * (layers.weights - layers.of_seen) + own.seen * layers.of_seen) +
         own.attended;
}

NodeKernels ProgramKernels::program_node(std::size_t index) const {
  const plan::Node& node = model_.program.nodes[index];
  const plan::Program& program = model_.program;
  const Layers layers = layers_of(index);
  const double share = shares_.of(node.name);
  const auto value = [&](plan::ValueId id) -> const plan::Value& { return program.values[id]; };
  const Math math = math_of(type_of(node.name));
  const auto element = static_cast<double>(size_of(type_of(node.name)));
  const auto [block, rows, seen, attended] = expected(index, layers);

  NodeKernels kernels;
  const bool flows =
      std::ranges::any_of(node.reads, [&](plan::ValueId id) { return flow_.value_has_grad[id]; });
  bool first = !flows;  // what the first layer reads has no gradient then
  double trained = 0;
  if (rows > 0)
    for (const Layers::Linear& layer : layers.linear) {
      const double read = layer.seen ? seen : rows;
      kernels.forward.push_back(gemm(math, read, layer.out, layer.in));
      kernels.forward.back().along = true;
      if (!std::exchange(first, false))
        kernels.input.push_back(gemm(math, read, layer.in, layer.out));
      if (!layer.trains) continue;
      kernels.weight.push_back(gemm(math, layer.out, layer.in, read));
      kernels.weight.back().crosswise = true;
      trained += layer.in * layer.out;
    }
  if (attended > 0) {
    const Kernel forward =
        block && practice_.attention == AttentionKernel::kTiles
            ? layers.tiles(math, rows, attended, share, value(node.reads[0]).shape,
                           family_prices(job_.model.family).causal)
            : attention(math, attended);
    kernels.forward.push_back(forward);
    kernels.input.push_back(times(forward, block ? 2.5 : 2));
  }

  double moved = static_cast<double>(node.saved_bytes);
  for (const plan::ValueId id : node.reads) moved += static_cast<double>(value(id).bytes);
  if (!node.loss)
    for (const plan::ValueId id : node.writes) moved += static_cast<double>(value(id).bytes);
  moved *= share;
  double operations = 2 + 2 * layers.norms;
  if (block) {  // norms read and write, residuals read two, as does what activates; kept or not
    const double width = static_cast<double>(value(node.reads[0]).shape.back());
    double activated = layers.inner > 0 ? layers.activated + layers.inner : 0;
    operations = 2 * layers.norms + 1;
    const BlockExtra own = seen > 0 ? BlockExtra{} : block_extra(job_);
    if (layers.inner > 0) activated += own.activated * layers.inner;
    moved = std::max(moved, rows * element * (5 * layers.norms * width + activated)) +
            rows * element * own.turned * layers.linear[1].in;
    operations += own.operations;
  }
  kernels.forward.push_back(stream(moved, operations));
  if (flows || layers.linear.size() > 1) kernels.input.push_back(stream(2 * moved, 2 * operations));
  if (layers.biases > 0) kernels.weight.push_back(stream(rows * element * layers.biases, 4));
  const auto sum = static_cast<double>(size_of(job_.precision.grads.value()));
  if (trained > 0)
    kernels.weight.push_back(
        stream(trained * (practice_.adds_weight_gradients ? element + 2 * sum : sum)));
  return typed(std::move(kernels), math);
}

}  // namespace trireme::planner
