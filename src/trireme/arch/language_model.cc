#include "trireme/arch/language_model.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "trireme/arch/exchanges.h"
#include "trireme/arch/flops.h"
#include "trireme/arch/layout.h"
#include "trireme/base/error.h"

namespace trireme::arch {
namespace {

using config::Family;
using config::Model;

// What a node does and keeps, of one micro-batch on one rank.
struct Work {
  std::int64_t saved_bytes;
  double products = 0;  // flops with weights
  double attention = 0;
  std::optional<std::int64_t> kept_bytes{};  // from half to half of a backward that splits
};

// Builds the chain embed -> blocks -> head; families add their parameters.
class Chain {
 public:
  Chain(std::string name, const Model& model, const Sizes& sizes, const PerRank& rank)
      : sizes_(sizes), rank_(rank), exchanges_(sizes, rank) {
    spec_.program.name = std::move(name);
    spec_.flops_per_token = flops_per_token(model, FlopsConvention::kNanoGpt);
    spec_.flops_convention = arch::name(FlopsConvention::kNanoGpt);
    tokens_ = value({.name = "tokens", .bytes = sizes.tokens * 8, .differentiable = false});
    targets_ = value({.name = "targets", .bytes = sizes.tokens * 8, .differentiable = false});
    if (rank.documents)
      positions_ = value({.name = "positions", .bytes = sizes.tokens * 8, .differentiable = false});
  }

  void embed(std::vector<ParamSpec> params, std::int64_t saved_bytes) {
    node({.name = "embed", .reads = with_positions(tokens_), .exchanges = exchanges_.embed()},
         {.saved_bytes = saved_bytes}, std::move(params));
    write_activation();
  }

  void block(std::vector<ParamSpec> params, const Work& work) {
    const std::string name = fmt::format("block.{}", blocks_);
    node({.name = name, .reads = with_positions(x_), .exchanges = exchanges_.block()}, work,
         std::move(params));
    ++blocks_;
    write_activation();
  }

  // A tied head multiplies by the first parameter of unit `embed`.
  void head(std::vector<ParamSpec> params, bool tied, const Work& work) {
    node({.name = "head", .reads = {x_, targets_}, .loss = true, .exchanges = exchanges_.head()},
         work, std::move(params));
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

  std::vector<plan::ValueId> with_positions(plan::ValueId value) const {
    if (positions_ < 0) return {value};
    return {value, positions_};
  }

  void write_activation() {
    const std::vector<std::int64_t> shape =
        rank_.sequence
            ? std::vector{std::int64_t{1}, sizes_.rows, sizes_.d}
            : std::vector{rank_.micro_batch, sizes_.tokens / rank_.micro_batch, sizes_.d};
    x_ = value({.name = fmt::format("x{}", blocks_),
                .bytes = sizes_.rows * sizes_.d * sizes_.element,
                .shape = shape});
    spec_.program.nodes.back().writes = {x_};
  }

  // A node with a unit of its own and the same name.
  void node(plan::Node node, const Work& work, std::vector<ParamSpec> params) {
    node.saved_bytes = work.saved_bytes;
    node.flops = work.products + work.attention;
    if (work.kept_bytes)
      node.split =
          plan::BackwardSplit{.kept_bytes = *work.kept_bytes, .weight_flops = work.products};
    const auto id = static_cast<plan::UnitId>(spec_.units.size());
    UnitSpec unit{.name = node.name, .params = std::move(params)};
    spec_.program.units.push_back({.name = unit.name,
                                   .numel = largest_numel(unit, rank_.tp),
                                   .tp_partial = partial_numel(unit, rank_.tp)});
    std::vector<ParamRef> refs;
    for (std::size_t i = 0; i < unit.params.size(); ++i)
      refs.push_back({.unit = id, .param = static_cast<int>(i)});
    node.units = {id};
    spec_.units.push_back(std::move(unit));
    spec_.node_params.push_back(std::move(refs));
    spec_.program.nodes.push_back(std::move(node));
  }

  const Sizes& sizes_;
  const PerRank& rank_;
  Exchanges exchanges_;
  ModelSpec spec_;
  plan::ValueId tokens_ = -1;
  plan::ValueId targets_ = -1;
  plan::ValueId positions_ = -1;  // none: samples are one document
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

// Cuts by whole heads and by single features.
struct Cuts {
  Cuts(const Model& model, const PerRank& rank)
      : width(model.hidden / model.heads),
        q{.granules = model.heads, .size = width},
        kv{.granules = model.kv_heads, .size = width, .sharers = model.heads / model.kv_heads},
        whole{.partial = rank.sequence} {}

  static Cut rows(std::vector<CutSegment> segments) {
    return {.dim = 0, .segments = std::move(segments)};
  }
  static Cut columns(std::vector<CutSegment> segments) {
    return {.dim = 1, .segments = std::move(segments)};
  }
  static CutSegment each(std::int64_t features) { return {.granules = features}; }

  std::int64_t width;  // of a head
  CutSegment q;
  CutSegment kv;
  Cut whole;
};

ParamSpec matrix(std::string name, std::int64_t out, std::int64_t in, const Init& init, Cut cut) {
  return {.name = std::move(name),
          .shape = {out, in},
          .init = init,
          .decay = true,
          .cut = std::move(cut)};
}
ParamSpec vector(std::string name, std::int64_t size, Init::Kind init, Cut cut) {
  return {.name = std::move(name),
          .shape = {size},
          .init = {.kind = init},
          .decay = false,
          .cut = std::move(cut)};
}
ParamSpec gain(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kOnes, cut);
}
ParamSpec bias(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kZeros, cut);
}

// Of one rank. Multiply-adds count two.
double product_flops(const Sizes& sizes, int tp, std::int64_t weights) {
  return 2.0 * static_cast<double>(sizes.tokens) * static_cast<double>(weights) / tp;
}
// Attention is counted as it is computed: causal, so half of QK^T and half of PV.
double attention_flops(const Model& model, const Sizes& sizes, int tp) {
  return 2.0 * static_cast<double>(sizes.tokens) *
         static_cast<double>(model.seq_len * model.hidden) / tp;
}

// Where the documents of attention's tokens begin, and what `rotated` numbers a token turn queries and keys.
std::int64_t document_saved(const Sizes& sizes, const PerRank& rank, std::int64_t rotated) {
  if (!rank.documents) return 0;
  return sizes.attention.tokens * 8 + sizes.tokens * rotated * sizes.statistic;
}

// In the rank's heads: q, k, v, attention's result, once more where heads were exchanged, log-sum-exp.
std::int64_t attention_saved(const Sizes& sizes) {
  const Sizes::Attention& own = sizes.attention;
  return own.tokens * (2 * (own.q + own.kv) * sizes.element + own.heads * sizes.statistic) +
         sizes.exchanged * sizes.tokens * sizes.q * sizes.element;
}

// From half to half of a block's backward: gradients of the `inner` features of its feed-forward and the activation
// of these; gradients of queries, keys and values, and attention's result; gradients of what both branches gave,
// gathered, and their normed inputs; and of gains and biases `sums` gradients.
std::int64_t block_kept(const Sizes& sizes, std::int64_t inner, std::int64_t sums) {
  return sizes.tokens * (inner + sizes.ffn + 2 * (sizes.q + sizes.kv) + 2 * sizes.d) *
             sizes.element +
         2 * sizes.rows * sizes.d * sizes.element + sums * sizes.d * sizes.statistic;
}

// The normed input, its `statistics` a token, the log-sum-exp and perhaps the logits, which become their own
// gradient.
std::int64_t head_saved(const Sizes& sizes, std::int64_t statistics, bool keep_logits) {
  return sizes.rows * (sizes.d * sizes.element + statistics * sizes.statistic) +
         sizes.tokens * ((keep_logits ? sizes.vocab : 0) * sizes.element + sizes.statistic);
}

// From half to half of its backward: the normed input, the logits' gradient and the norm's `sums`. Logits that are
// computed again do not split it.
std::optional<std::int64_t> head_kept(const Sizes& sizes, std::int64_t sums, bool keep_logits) {
  if (!keep_logits) return std::nullopt;
  return (sizes.rows * sizes.d + sizes.tokens * sizes.vocab) * sizes.element +
         sums * sizes.d * sizes.statistic;
}

Work head_work(const Model& model, const Sizes& sizes, const PerRank& rank,
               std::int64_t statistics) {
  return {.saved_bytes = head_saved(sizes, statistics, rank.keep_logits),
          .products = product_flops(sizes, rank.tp, sizes.d * model.vocab),
          .kept_bytes = head_kept(sizes, statistics, rank.keep_logits)};
}

}  // namespace

ModelSpec gpt_spec(const Model& model, const PerRank& rank) {
  const Sizes sizes(model, rank);
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t ffn = model.ffn;
  const Cut qkv = Cuts::rows({cut.q, cut.kv, cut.kv});
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  Chain chain("gpt", model, sizes, rank);
  chain.embed({matrix("transformer.wte.weight", model.vocab, d, init.matrix,
                      Cuts::rows({Cuts::each(model.vocab)})),
               matrix("transformer.wpe.weight", model.seq_len, d, init.matrix, cut.whole)},
              /*places of rows*/ sizes.spread && !(rank.documents && sizes.rows == sizes.tokens)
                  ? sizes.rows * 8
                  : 0);
  // Kept by rows: ln_1, x between the branches, ln_2, mean and deviation of two norms; of all tokens, in
  // the rank's features: c_fc before GELU.
  const std::int64_t saved = sizes.rows * (3 * d * sizes.element + 4 * sizes.statistic) +
                             attention_saved(sizes) + sizes.tokens * sizes.ffn * sizes.element;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    chain.block(
        {gain(h + "ln_1.weight", d, cut.whole), bias(h + "ln_1.bias", d, cut.whole),
         matrix(h + "attn.c_attn.weight", 3 * d, d, init.matrix, qkv),
         bias(h + "attn.c_attn.bias", 3 * d, qkv),
         matrix(h + "attn.c_proj.weight", d, d, init.residual, Cuts::columns({cut.q})),
         bias(h + "attn.c_proj.bias", d, cut.whole), gain(h + "ln_2.weight", d, cut.whole),
         bias(h + "ln_2.bias", d, cut.whole),
         matrix(h + "mlp.c_fc.weight", ffn, d, init.matrix, features),
         bias(h + "mlp.c_fc.bias", ffn, features),
         matrix(h + "mlp.c_proj.weight", d, ffn, init.residual, Cuts::columns({Cuts::each(ffn)})),
         bias(h + "mlp.c_proj.bias", d, cut.whole)},
        {.saved_bytes = saved + document_saved(sizes, rank, 0),
         .products = product_flops(sizes, rank.tp, 4 * d * d + 2 * d * ffn),
         .attention = attention_flops(model, sizes, rank.tp),
         .kept_bytes = block_kept(sizes, sizes.ffn, rank.sequence ? 6 : 4)});
  }
  std::vector<ParamSpec> head = {gain("transformer.ln_f.weight", d, cut.whole),
                                 bias("transformer.ln_f.bias", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), model.tied, head_work(model, sizes, rank, 2));
  return std::move(chain).build();
}

ModelSpec llama_spec(const Model& model, const PerRank& rank) {
  const Sizes sizes(model, rank);
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t kv = cut.width * model.kv_heads;
  const std::int64_t ffn = model.ffn;
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  Chain chain("llama", model, sizes, rank);
  chain.embed({matrix("model.embed_tokens.weight", model.vocab, d, init.matrix,
                      Cuts::rows({Cuts::each(model.vocab)}))},
              0);
  // Kept by rows: the first norm, x between the branches, the second norm, a deviation per norm; of all
  // tokens, in the rank's features: gate and up.
  const std::int64_t saved = sizes.rows * (3 * d * sizes.element + 2 * sizes.statistic) +
                             attention_saved(sizes) + sizes.tokens * 2 * sizes.ffn * sizes.element;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("model.layers.{}.", layer);
    chain.block({gain(h + "input_layernorm.weight", d, cut.whole),
                 matrix(h + "self_attn.q_proj.weight", d, d, init.matrix, Cuts::rows({cut.q})),
                 matrix(h + "self_attn.k_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                 matrix(h + "self_attn.v_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                 matrix(h + "self_attn.o_proj.weight", d, d, init.residual, Cuts::columns({cut.q})),
                 gain(h + "post_attention_layernorm.weight", d, cut.whole),
                 matrix(h + "mlp.gate_proj.weight", ffn, d, init.matrix, features),
                 matrix(h + "mlp.up_proj.weight", ffn, d, init.matrix, features),
                 matrix(h + "mlp.down_proj.weight", d, ffn, init.residual,
                        Cuts::columns({Cuts::each(ffn)}))},
                {.saved_bytes = saved + document_saved(sizes, rank, cut.width),
                 .products = product_flops(sizes, rank.tp, 2 * d * d + 2 * d * kv + 3 * d * ffn),
                 .attention = attention_flops(model, sizes, rank.tp),
                 .kept_bytes = block_kept(sizes, 2 * sizes.ffn, 2)});
  }
  std::vector<ParamSpec> head = {gain("model.norm.weight", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), model.tied, head_work(model, sizes, rank, 1));
  return std::move(chain).build();
}

ModelSpec describe(const config::Job& job) {
  const PerRank rank{.micro_batch = job.run.micro_batch,
                     .compute = job.precision.compute,
                     .tp = job.parallel.tp,
                     .sequence = job.parallel.sequence_parallel && job.parallel.tp > 1,
                     .cp = job.parallel.cp,
                     .context = job.parallel.context,
                     .context_inner = job.parallel.context_inner,
                     .keep_logits = !job.recompute.logits,
                     .documents = job.data.documents};
  ModelSpec spec =
      job.model.family == Family::kGpt ? gpt_spec(job.model, rank) : llama_spec(job.model, rank);
  spec.program = place_stages(job, std::move(spec.program));
  return spec;
}

}  // namespace trireme::arch
