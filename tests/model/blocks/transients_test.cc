// What nodes say they hold while they run, against what LibTorch allocates.
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <vector>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/relatives.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/families.h"
#include "trireme/model/blocks/build.h"
#include "trireme/plan/memory.h"

// The formulas are those of our kernels.
namespace trireme::blocks::transients_test {
namespace {

struct Case {
  config::Family family;
  DType type;
  std::int64_t micro_batch;
  double dropout = 0;
  bool logits = true;
  bool qwen = false;  // biases and norms of queries and keys, wider heads
  const char* layers = "";
  bool serial = false;  // of neox: feed-forward layers after attention
  const char* relative = "";
  RowForm stored = RowForm::kFull;  // of frozen weights, with adapters
};

config::Job job_of(const Case& one) {
  config::Job job;
  const bool llama = one.family == config::Family::kLlama;
  job.model = {.family = one.family,
               .layers = 1,
               .hidden = 128,
               .heads = 4,
               .kv_heads = llama ? 2 : 4,
               .ffn = 320,
               .vocab = 193,
               .seq_len = 160};
  job.model.dropout = one.dropout;
  job.neox.parallel_residual = !one.serial;
  if (one.qwen) job.model.head_dim = 48;
  job.model.qkv_bias = job.model.qk_norm = one.qwen;
  job.model.attention_layers = one.layers;
  job.precision.compute = one.type;
  job.run.micro_batch = one.micro_batch;
  job.recompute.logits = !one.logits;
  if (one.stored != RowForm::kFull)
    job.lora = {.rank = 4, .base = one.stored, .also = "embed,head"};
  if (*one.relative != 0)
    for (const std::string& set : harness::kRelatives.at(one.relative)) config::apply_set(job, set);
  return job;
}

class Transients : public testing::TestWithParam<Case> {
 protected:
  Transients()
      : job_(job_of(GetParam())),
        bound_(build(job_), comm::scalar_type(GetParam().type)),
        tokens_(at::randint(job_.model.vocab, {job_.run.micro_batch, job_.model.seq_len},
                            at::TensorOptions().dtype(at::kLong))) {
    // Gradients have memory of their own, in the type of sums.
    for (const auto& [name, param] : bound_.params()) {
      if (!param.requires_grad()) continue;
      const at::ScalarType wide = param.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      at::Tensor(param).mutable_grad() = at::zeros(param.sizes(), at::TensorOptions().dtype(wide));
    }
  }

  std::vector<at::Tensor> inputs(std::size_t node, const at::Tensor& x) const {
    std::vector<at::Tensor> all = {x};
    if (bound_.model().spec.program.nodes[node].loss) all.push_back(tokens_);
    return all;
  }

  config::Job job_;
  harness::BoundModel bound_;
  at::Tensor tokens_;
};

// What oneDNN takes for a product of narrow types, of at most 384 rows here: it lays out 64 columns at a time anew.
std::int64_t scratch(DType type) { return type == DType::kF32 ? 0 : 384 * 64 * 2 + 1024; }

// Of the two ways to multiply tiles of attention that a type has the larger is declared.
std::int64_t other_tiles(DType type) { return type == DType::kBF16 ? 16 << 10 : 0; }

// Values of the widest stored matrix: declared at backward's peak, which may be another's.
std::int64_t stored_values(const Case& one) {
  return one.stored == RowForm::kFull ? 0
                                      : std::int64_t{128 * 320} * (one.type == DType::kF32 ? 4 : 2);
}

// Never more than is declared, but for scratch; `spare` bytes may have been declared in vain.
void expect_near(std::int64_t measured, std::int64_t declared, DType type, const std::string& what,
                 std::int64_t spare = 0) {
  constexpr std::int64_t kSmallTensors = 1024;
  const std::int64_t tolerance = declared / 100 + kSmallTensors;
  EXPECT_LE(measured, declared + tolerance + scratch(type)) << what;
  EXPECT_GE(measured, declared - tolerance - spare) << what;
}

TEST_P(Transients, AreWhatNodesDeclare) {
  const harness::CountAllocations count;
  const plan::Program& program = bound_.model().spec.program;
  at::Tensor x = tokens_;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const plan::Node& node = program.nodes[n];
    const std::int64_t out = program.values[node.writes[0]].bytes;
    const std::int64_t activation = program.values[program.nodes[0].writes[0]].bytes;
    const exec::BlockContext context{.seed = 1, .node = static_cast<int>(n), .training = true};
    {
      const at::NoGradGuard no_grad;
      bound_.block(n).forward(inputs(n, x), context);  // what is made once
      expect_near(count.peak_of([&] { bound_.block(n).forward(inputs(n, x), context); }),
                  out + node.work.passing, GetParam().type, node.name + " passing");
    }
    at::Tensor leaf = x.detach(), y;
    if (n > 0) leaf.set_requires_grad(true);
    expect_near(count.peak_of([&] { y = bound_.block(n).forward(inputs(n, leaf), context)[0]; }),
                out + plan::kept_bytes(node) + plan::dropped_bytes(node) + node.work.forward,
                GetParam().type, node.name + " forward");
    x = y.detach();
    const torch::autograd::edge_list roots = {torch::autograd::impl::gradient_edge(y)};
    y = at::Tensor();
    const torch::autograd::variable_list seeds = {at::ones_like(x)};
    // Beside what is kept, the values and the gradient of what it writes.
    expect_near(count.peak_of([&] {
      torch::autograd::Engine::get_default_engine().execute(roots, seeds, false, false, true);
    }),
                (n > 0 ? activation : 0) + node.work.backward + plan::work_bytes(node),
                GetParam().type, node.name + " backward",
                // The last piece of logits is gone before the gradient is rounded.
                (plan::work_bytes(node) > 0 ? activation : other_tiles(GetParam().type)) +
                    stored_values(GetParam()));
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  using config::Family;
  for (Family family : {Family::kGpt, Family::kLlama, Family::kNeox})
    for (DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
      if (family == Family::kNeox && type == DType::kF16) continue;  // no GELU of LibTorch
      for (std::int64_t micro_batch : {1, 3})
        for (bool logits : {true, false}) all.push_back({family, type, micro_batch, 0, logits});
    }
  all.push_back({.family = Family::kNeox, .type = DType::kF32, .micro_batch = 3, .serial = true});
  all.push_back({config::Family::kGpt, DType::kF32, 2, 0.1});
  for (DType type : {DType::kF32, DType::kBF16, DType::kF64})
    all.push_back({config::Family::kLlama, type, 3, 0, true, true});
  for (const char* relative : {"olmo", "gemma", "granite", "gemma2", "biased"})
    for (DType type : {DType::kF32, DType::kBF16, DType::kF64})
      all.push_back(
          {.family = config::Family::kLlama, .type = type, .micro_batch = 3, .relative = relative});
  all.push_back({.family = config::Family::kLlama,
                 .type = DType::kF32,
                 .micro_batch = 3,
                 .layers = "nope",
                 .relative = "granite"});
  for (RowForm form : {RowForm::kInt8, RowForm::kNf4})
    for (DType type : {DType::kF32, DType::kBF16})
      all.push_back(
          {.family = config::Family::kLlama, .type = type, .micro_batch = 3, .stored = form});
  for (const char* layers : {"sliding:20", "nope"})
    for (const bool qwen : {false, true})
      all.push_back({config::Family::kLlama, DType::kF32, 3, 0, true, qwen, layers});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nodes, Transients, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}_mb{}{}{}{}{}{}{}{}{}", config::name(c.family), name(c.type),
                     c.micro_batch, c.dropout > 0 ? "_dropout" : "", c.logits ? "" : "_logits",
                     c.qwen ? "_qwen" : "",
                     *c.layers == 's'   ? "_sliding"
                     : *c.layers == 'n' ? "_nope"
                                        : "",
                     c.serial ? "_serial" : "", *c.relative != 0 ? "_" : "", c.relative,
                     c.stored == RowForm::kNf4    ? "_nf4"
                     : c.stored == RowForm::kInt8 ? "_int8"
                                                  : "");
});

}  // namespace
}  // namespace trireme::blocks::transients_test
