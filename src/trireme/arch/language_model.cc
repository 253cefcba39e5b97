#include "trireme/arch/language_model.h"

#include <cmath>
#include <string>
#include <utility>

#include "trireme/arch/flops.h"
#include "trireme/base/error.h"

namespace trireme::arch {
namespace {

using config::Family;
using config::Model;

// Sizes in the letters of the formulas below. Bytes saved by a node are counted per token, from what
// the blocks of room models keep; a test there compares both.
struct Sizes {
  Sizes(const Model& model, std::int64_t micro_batch, DType compute)
      : tokens(micro_batch * model.seq_len),
        d(model.hidden),
        kv(model.hidden / model.heads * model.kv_heads),
        ffn(model.ffn),
        element(static_cast<std::int64_t>(size_of(compute))),
        statistic(compute == DType::kF64 ? 8 : 4) {
    TRIREME_CHECK(model.vocab > 0 && model.ffn > 0 && model.kv_heads > 0 && model.layers > 0,
                  "model is not resolved");
  }
  std::int64_t tokens;  // of a micro-batch
  std::int64_t d;
  std::int64_t kv;  // width of keys and of values
  std::int64_t ffn;
  std::int64_t element;    // bytes of an activation
  std::int64_t statistic;  // bytes of a norm's or softmax's statistic, and of the loss
};

// Builds the chain embed -> blocks -> head; families add their parameters.
class Chain {
 public:
  Chain(std::string name, const Model& model, const Sizes& sizes) : sizes_(sizes) {
    spec_.program.name = std::move(name);
    spec_.flops_per_token = flops_per_token(model, FlopsConvention::kNanoGpt);
    spec_.flops_convention = arch::name(FlopsConvention::kNanoGpt);
    tokens_ = value({.name = "tokens", .bytes = sizes.tokens * 8, .differentiable = false});
    targets_ = value({.name = "targets", .bytes = sizes.tokens * 8, .differentiable = false});
  }

  void embed(std::vector<ParamSpec> params) {
    node({.name = "embed", .reads = {tokens_}}, std::move(params));
    write_activation();
  }

  void block(std::vector<ParamSpec> params, std::int64_t saved_bytes, double flops) {
    const std::string name = fmt::format("block.{}", blocks_);
    node({.name = name, .reads = {x_}, .saved_bytes = saved_bytes, .flops = flops},
         std::move(params));
    ++blocks_;
    write_activation();
  }

  // A tied head multiplies by the first parameter of unit `embed`.
  void head(std::vector<ParamSpec> params, bool tied, std::int64_t saved_bytes, double flops) {
    node({.name = "head",
          .reads = {x_, targets_},
          .loss = true,
          .saved_bytes = saved_bytes,
          .flops = flops},
         std::move(params));
    if (tied) {
      spec_.program.nodes.back().units.push_back(0);
      spec_.node_params.back().push_back({.unit = 0, .param = 0});
    }
    spec_.program.nodes.back().writes = {value({.name = "loss", .bytes = sizes_.statistic})};
  }

  ModelSpec build() && {
    plan::check_program(spec_.program);
    return std::move(spec_);
  }

 private:
  plan::ValueId value(plan::Value value) {
    spec_.program.values.push_back(std::move(value));
    return static_cast<plan::ValueId>(spec_.program.values.size()) - 1;
  }

  void write_activation() {
    x_ = value(
        {.name = fmt::format("x{}", blocks_), .bytes = sizes_.tokens * sizes_.d * sizes_.element});
    spec_.program.nodes.back().writes = {x_};
  }

  // A node with a unit of its own and the same name.
  void node(plan::Node node, std::vector<ParamSpec> params) {
    const auto id = static_cast<plan::UnitId>(spec_.units.size());
    UnitSpec unit{.name = node.name, .params = std::move(params)};
    spec_.program.units.push_back({.name = unit.name, .numel = unit.numel()});
    std::vector<ParamRef> refs;
    for (std::size_t i = 0; i < unit.params.size(); ++i)
      refs.push_back({.unit = id, .param = static_cast<int>(i)});
    node.units = {id};
    spec_.units.push_back(std::move(unit));
    spec_.node_params.push_back(std::move(refs));
    spec_.program.nodes.push_back(std::move(node));
  }

  const Sizes& sizes_;
  ModelSpec spec_;
  plan::ValueId tokens_ = -1;
  plan::ValueId targets_ = -1;
  plan::ValueId x_ = -1;
  int blocks_ = 0;
};

// Matrices are drawn from N(0, init_std^2); those that write to the residual stream from a deviation
// smaller by sqrt(2 layers) (GPT-2's report; Megatron does so for every family).
struct Initial {
  explicit Initial(const Model& model)
      : matrix{.kind = Init::Kind::kNormal, .std = model.init_std},
        residual{.kind = Init::Kind::kNormal,
                 .std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers))} {}
  Init matrix;
  Init residual;
};

ParamSpec matrix(std::string name, std::int64_t out, std::int64_t in, const Init& init) {
  return {.name = std::move(name), .shape = {out, in}, .init = init, .decay = true};
}
ParamSpec gain(std::string name, std::int64_t size) {
  return {.name = std::move(name),
          .shape = {size},
          .init = {.kind = Init::Kind::kOnes},
          .decay = false};
}
ParamSpec bias(std::string name, std::int64_t size) {
  return {.name = std::move(name),
          .shape = {size},
          .init = {.kind = Init::Kind::kZeros},
          .decay = false};
}

// Multiply-adds count two. Attention is counted as it is computed: causal, so half of QK^T and half of PV.
double block_flops(const Model& model, const Sizes& sizes, std::int64_t weights) {
  const double tokens = static_cast<double>(sizes.tokens);
  const double attention = 2.0 * static_cast<double>(model.seq_len * model.hidden);
  return tokens * (2.0 * static_cast<double>(weights) + attention);
}
double head_flops(const Model& model, const Sizes& sizes) {
  return 2.0 * static_cast<double>(sizes.tokens) * static_cast<double>(model.hidden * model.vocab);
}

// The normed input, its `statistics` a token, the log-sum-exp and perhaps the logits, which become their own
// gradient.
std::int64_t head_saved(const Model& model, const Sizes& sizes, std::int64_t statistics,
                        bool keep_logits) {
  const std::int64_t elements = sizes.d + (keep_logits ? model.vocab : 0);
  return sizes.tokens * (elements * sizes.element + (statistics + 1) * sizes.statistic);
}

}  // namespace

ModelSpec gpt_spec(const Model& model, std::int64_t micro_batch, DType compute, bool keep_logits) {
  const Sizes sizes(model, micro_batch, compute);
  const Initial init(model);
  const std::int64_t d = sizes.d;
  const std::int64_t ffn = sizes.ffn;
  Chain chain("gpt", model, sizes);
  chain.embed({matrix("transformer.wte.weight", model.vocab, d, init.matrix),
               matrix("transformer.wpe.weight", model.seq_len, d, init.matrix)});
  // Kept: ln_1, q, k, v, attention's output, x between the branches, ln_2; c_fc before GELU;
  // mean and deviation of two norms, log-sum-exp of each head.
  const std::int64_t saved =
      sizes.tokens * ((7 * d + ffn) * sizes.element + (4 + model.heads) * sizes.statistic);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    chain.block(
        {gain(h + "ln_1.weight", d), bias(h + "ln_1.bias", d),
         matrix(h + "attn.c_attn.weight", 3 * d, d, init.matrix),
         bias(h + "attn.c_attn.bias", 3 * d), matrix(h + "attn.c_proj.weight", d, d, init.residual),
         bias(h + "attn.c_proj.bias", d), gain(h + "ln_2.weight", d), bias(h + "ln_2.bias", d),
         matrix(h + "mlp.c_fc.weight", ffn, d, init.matrix), bias(h + "mlp.c_fc.bias", ffn),
         matrix(h + "mlp.c_proj.weight", d, ffn, init.residual), bias(h + "mlp.c_proj.bias", d)},
        saved, block_flops(model, sizes, 4 * d * d + 2 * d * ffn));
  }
  std::vector<ParamSpec> head = {gain("transformer.ln_f.weight", d),
                                 bias("transformer.ln_f.bias", d)};
  if (!model.tied) head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix));
  chain.head(std::move(head), model.tied, head_saved(model, sizes, 2, keep_logits),
             head_flops(model, sizes));
  return std::move(chain).build();
}

ModelSpec llama_spec(const Model& model, std::int64_t micro_batch, DType compute,
                     bool keep_logits) {
  const Sizes sizes(model, micro_batch, compute);
  const Initial init(model);
  const std::int64_t d = sizes.d;
  const std::int64_t kv = sizes.kv;
  const std::int64_t ffn = sizes.ffn;
  Chain chain("llama", model, sizes);
  chain.embed({matrix("model.embed_tokens.weight", model.vocab, d, init.matrix)});
  // Kept: the first norm, rotated q and k, v, attention's output, x between the branches, the second
  // norm; gate and up; a deviation per norm, log-sum-exp of each head.
  const std::int64_t saved = sizes.tokens * ((5 * d + 2 * kv + 2 * ffn) * sizes.element +
                                             (2 + model.heads) * sizes.statistic);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("model.layers.{}.", layer);
    chain.block({gain(h + "input_layernorm.weight", d),
                 matrix(h + "self_attn.q_proj.weight", d, d, init.matrix),
                 matrix(h + "self_attn.k_proj.weight", kv, d, init.matrix),
                 matrix(h + "self_attn.v_proj.weight", kv, d, init.matrix),
                 matrix(h + "self_attn.o_proj.weight", d, d, init.residual),
                 gain(h + "post_attention_layernorm.weight", d),
                 matrix(h + "mlp.gate_proj.weight", ffn, d, init.matrix),
                 matrix(h + "mlp.up_proj.weight", ffn, d, init.matrix),
                 matrix(h + "mlp.down_proj.weight", d, ffn, init.residual)},
                saved, block_flops(model, sizes, 2 * d * d + 2 * d * kv + 3 * d * ffn));
  }
  std::vector<ParamSpec> head = {gain("model.norm.weight", d)};
  if (!model.tied) head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix));
  chain.head(std::move(head), model.tied, head_saved(model, sizes, 1, keep_logits),
             head_flops(model, sizes));
  return std::move(chain).build();
}

ModelSpec describe(const config::Job& job) {
  const DType compute = job.precision.compute;
  const bool keep_logits = !job.recompute.logits;
  switch (job.model.family) {
    case Family::kGpt: return gpt_spec(job.model, job.run.micro_batch, compute, keep_logits);
    case Family::kLlama: return llama_spec(job.model, job.run.micro_batch, compute, keep_logits);
  }
  TRIREME_CHECK(false, "family {} has no spec", static_cast<int>(job.model.family));
}

}  // namespace trireme::arch
