#include "trireme/model/families/language_model.h"

#include <cmath>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/account/work.h"
#include "trireme/model/graph.h"
#include "trireme/model/training.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::model {
namespace {

using config::Model;

// A block as its family gives it; `attention` and `mlp` say which parameters are the weights of its linear layers. The
// layers and gradients of `block` follow.
struct BlockSpec {
  std::vector<ParamSpec> params;
  std::vector<int> attention;
  std::vector<int> mlp;
  TrainedBlock block;
};

// Builds the chain embed -> blocks -> head on a graph; families add their parameters.
class Chain {
 public:
  // Behind inputs of its own.
  Chain(Graph& graph, const Model& model, const Sizes& sizes)
      : Chain(graph, model, sizes, {}, graph.input("tokens", sizes.tokens * 8)) {
    targets_ = graph_.input("targets", sizes.tokens * 8);
    if (rank_.documents) positions_ = graph_.input("positions", sizes.tokens * 8);
    if (rank_.balances())
      chunks_ = graph_.input("chunks", mesh::most_chunks(model.seq_len, rank_.cp) * 8);
  }
  // Behind what another node has embedded.
  Chain(Graph& graph, const Model& model, const Sizes& sizes, const Embedded& embedded)
      : Chain(graph, model, sizes, embedded, -1) {}

  void embed(std::vector<ParamSpec> params, std::int64_t saved_bytes) {
    node({.name = "embed",
          .reads = with_positions(tokens_),
          .looks_up = true,
          .work = converting("embed", embed_transients(model_, sizes_of("embed"), typed("embed"))),
          .exchanges = exchanges("embed").embed()},
         {.saved_bytes = saved_bytes}, std::move(params), activation());
  }

  void block(BlockSpec spec) {
    const std::string name = fmt::format("block.{}", blocks_);
    std::vector<int> adapted = training_.adapted_attention(spec.attention);
    const std::vector<int> mlp = training_.adapted_mlp(spec.mlp);
    TrainedBlock& block = spec.block;
    block.dropout = training_.dropout();
    block.gradients = {.input = graph_.reached(x_), .own = training_.trains(name)};
    block.qkv = layers(spec.params, spec.attention, adapted, 0);
    block.out = layers(spec.params, spec.attention, adapted, 1);
    block.up = layers(spec.params, spec.mlp, mlp, 0);
    block.down = layers(spec.params, spec.mlp, mlp, 1);
    adapted.insert(adapted.end(), mlp.begin(), mlp.end());
    std::vector<ParamSpec> adapters;
    for (const int weight : adapted)
      for (ParamSpec& param :
           adapter_params(spec.params[static_cast<std::size_t>(weight)], training_.adapter_rank()))
        adapters.push_back(std::move(param));
    ++blocks_;
    const PerRank rank = typed(name).of_rows();
    const Sizes sizes(model_, rank);
    node({.name = name,
          .reads = with_positions(x_),
          .work = converting(name, block_transients(model_, sizes, rank, block)),
          .exchanges = Exchanges(sizes, rank).block(block)},
         block_work(model_, sizes, rank, block), std::move(spec.params), activation());
    if (rank_.spread > 1) graph_.spread_rows();
    graph_.adapt(std::move(adapted), {.name = name + ".lora", .params = std::move(adapters)});
  }

  // What the last node has written, and what the next one reads instead.
  plan::ValueId written() const { return x_; }
  void then(plan::ValueId x) { x_ = x; }

  // A tied head multiplies by the first parameter of unit `embed`. `statistics` as TrainedHead's.
  void head(std::vector<ParamSpec> params, std::int64_t statistics) {
    const bool own = training_.trains("head");
    const TrainedHead head{.statistics = statistics,
                           .gradients = {.input = graph_.reached(x_), .own = own},
                           .weight = model_.tied ? training_.trains("embed") : own};
    node(
        {.name = "head",
         .reads = {x_, targets_},
         .loss = true,
         .work = converting("head", head_transients(model_, sizes_of("head"), typed("head"), head)),
         .exchanges = exchanges("head").head(head)},
        head_work(model_, sizes_of("head"), rank_, head), std::move(params),
        {.name = "loss", .bytes = sizes_.statistic});
    if (model_.tied) graph_.bind({.unit = embed_, .param = 0});
  }

 private:
  Chain(Graph& graph, const Model& model, const Sizes& sizes, const Embedded& embedded,
        plan::ValueId tokens)
      : model_(model),
        sizes_(sizes),
        rank_(graph.rank()),
        training_(graph.training()),
        graph_(graph),
        tokens_(tokens),
        targets_(embedded.targets),
        positions_(embedded.positions),
        x_(embedded.x),
        embed_(embedded.unit) {}

  // Those of `all` that are cut along `dim`, with the adapters of `adapted`.
  LinearLayers layers(const std::vector<ParamSpec>& params, const std::vector<int>& all,
                      const std::vector<int>& adapted, int dim) const {
    LinearLayers result = layers_of(params, all, dim, rank_, 0);
    const LinearLayers own = layers_of(params, adapted, dim, rank_, training_.adapter_rank());
    result.down = own.down;
    result.up = own.up;
    result.inner = own.inner;
    return result;
  }
  std::vector<plan::ValueId> with_positions(plan::ValueId value) const {
    if (chunks_ >= 0) return {value, positions_, chunks_};
    return positions_ < 0 ? std::vector{value} : std::vector{value, positions_};
  }

  // In the type that the node computes in.
  Sizes sizes_of(const std::string& node) const { return {model_, typed(node)}; }
  PerRank typed(const std::string& node) const {
    PerRank rank = rank_;
    rank.compute = graph_.types().of(node);
    return rank;
  }
  Exchanges exchanges(const std::string& node) const { return {sizes_of(node), typed(node)}; }
  // With, of a node of another type, what it writes before it is converted, or the gradients of that.
  plan::NodeWork converting(const std::string& node, plan::NodeWork work) const {
    if (graph_.types().of(node) == rank_.compute) return work;
    const Sizes sizes = sizes_of(node);
    const std::int64_t own = sizes.rows * sizes.d * sizes.element;
    for (std::int64_t* bytes : {&work.forward, &work.passing, &work.backward, &work.input})
      *bytes += own;
    return work;
  }
  // The copy that a node of another type makes of the activation it reads, if a gradient comes back to it.
  std::int64_t converted_bytes(const plan::Node& node) const {
    if (node.reads[0] != x_ || graph_.types().of(node.name) == rank_.compute) return 0;
    if (!graph_.reached(x_) && !training_.trains(node.name)) return 0;
    return sizes_.rows * sizes_.d * sizes_of(node.name).element;
  }

  plan::Value activation() const {
    const std::vector<std::int64_t> shape =
        rank_.sequence
            ? std::vector{std::int64_t{1}, sizes_.rows, sizes_.d}
            : std::vector{rank_.micro_batch, sizes_.tokens / rank_.micro_batch, sizes_.d};
    return {.name = fmt::format("x{}", blocks_),
            .bytes = sizes_.rows * sizes_.d * sizes_.element,
            .shape = shape,
            .whole = rank_.tp > 1 && !rank_.sequence};
  }

  // A node with a unit of its own and the same name.
  void node(plan::Node node, Work work, std::vector<ParamSpec> params, plan::Value writes) {
    work.saved_bytes += converted_bytes(node);
    const plan::UnitId unit = graph_.unit({.name = node.name, .params = std::move(params)});
    if (embed_ < 0) embed_ = unit;
    x_ = graph_.node(std::move(node), work, {unit}, {std::move(writes)})[0];
  }

  const Model& model_;
  const Sizes& sizes_;
  const PerRank& rank_;
  const Training& training_;
  Graph& graph_;
  plan::ValueId tokens_;
  plan::ValueId targets_;
  plan::ValueId positions_, chunks_ = -1;  // -1: not an input
  plan::ValueId x_;
  plan::UnitId embed_;
  int blocks_ = 0;
};

ModelSpec built(Graph graph, const Model& model) {
  ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = model.seq_len;
  return spec;
}

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
      : width(config::head_width(model)),
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

// LayerNorm takes mean, variance, scale and shift; RMSNorm squares, scale and gain.
constexpr double kLayerNormFlops = 8, kRmsNormFlops = 4;

// Blocks and head of GPT-2; `rotated` as TrainedBlock's.
void gpt_blocks(Chain& chain, const Model& model, const Sizes& sizes, const PerRank& rank,
                std::int64_t rotated) {
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t ffn = model.ffn;
  const Cut qkv = Cuts::rows({cut.q, cut.kv, cut.kv});
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    chain.block(
        {.params = {gain(h + "ln_1.weight", d, cut.whole), bias(h + "ln_1.bias", d, cut.whole),
                    matrix(h + "attn.c_attn.weight", 3 * d, d, init.matrix, qkv),
                    bias(h + "attn.c_attn.bias", 3 * d, qkv),
                    matrix(h + "attn.c_proj.weight", d, d, init.residual, Cuts::columns({cut.q})),
                    bias(h + "attn.c_proj.bias", d, cut.whole),
                    gain(h + "ln_2.weight", d, cut.whole), bias(h + "ln_2.bias", d, cut.whole),
                    matrix(h + "mlp.c_fc.weight", ffn, d, init.matrix, features),
                    bias(h + "mlp.c_fc.bias", ffn, features),
                    matrix(h + "mlp.c_proj.weight", d, ffn, init.residual,
                           Cuts::columns({Cuts::each(ffn)})),
                    bias(h + "mlp.c_proj.bias", d, cut.whole)},
         .attention = {2, 4},
         .mlp = {8, 10},
         .block = {.statistics = 2,
                   .norm_flops = kLayerNormFlops,
                   .inner = sizes.ffn,
                   .rotated = rotated,
                   .sums = rank.sequence ? 6 : 4}});
  }
  std::vector<ParamSpec> head = {gain("transformer.ln_f.weight", d, cut.whole),
                                 bias("transformer.ln_f.bias", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), 2);
}

ParamSpec token_table(std::string name, const Model& model) {
  return matrix(std::move(name), model.vocab, model.hidden, Initial(model).matrix,
                Cuts::rows({Cuts::each(model.vocab)}));
}

}  // namespace

ParamSpec gpt_embedding(const Model& model) { return token_table("transformer.wte.weight", model); }

ModelSpec gpt_spec(const Model& model, const PerRank& rank, const Training& training) {
  const Sizes sizes(model, rank);
  Graph graph("gpt", rank, training);
  Chain chain(graph, model, sizes);
  chain.embed({gpt_embedding(model), matrix("transformer.wpe.weight", model.seq_len, sizes.d,
                                            Initial(model).matrix, Cuts(model, rank).whole)},
              /*places of rows*/ sizes.spread && !(rank.documents && sizes.rows == sizes.tokens)
                  ? sizes.rows * 8
                  : 0);
  gpt_blocks(chain, model, sizes, rank, 0);
  return built(std::move(graph), model);
}

void gpt_behind(Graph& graph, const Model& model, const Embedded& embedded) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  gpt_blocks(chain, model, sizes, graph.rank(), model.hidden / model.heads);
}

namespace {

// Behind the other parameters of a block: biases of queries, keys and values, then gains of queries and of keys.
void add_qwen_params(const std::string& prefix, const Model& model, const Cuts& cut,
                     const PerRank& rank, std::vector<ParamSpec>& params) {
  const std::string attention = prefix + "self_attn.";
  if (model.qkv_bias)
    for (const auto& [name, heads] :
         {std::pair{"q_proj", cut.q}, std::pair{"k_proj", cut.kv}, std::pair{"v_proj", cut.kv}})
      params.push_back(
          bias(attention + name + ".bias", heads.granules * heads.size, Cuts::rows({heads})));
  if (model.qk_norm)
    for (const char* name : {"q_norm", "k_norm"})  // of each rank's own heads
      params.push_back(gain(attention + name + ".weight", cut.width, {.partial = rank.tp > 1}));
}

// Blocks and head of Llama.
void llama_blocks(Chain& chain, const Model& model, const Sizes& sizes, const PerRank& rank,
                  const BehindBlock& behind_block) {
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t q = cut.width * model.heads, kv = cut.width * model.kv_heads;
  const std::int64_t ffn = model.ffn;
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("model.layers.{}.", layer);
    BlockSpec block = {
        .params = {gain(h + "input_layernorm.weight", d, cut.whole),
                   matrix(h + "self_attn.q_proj.weight", q, d, init.matrix, Cuts::rows({cut.q})),
                   matrix(h + "self_attn.k_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                   matrix(h + "self_attn.v_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                   matrix(h + "self_attn.o_proj.weight", d, q, init.residual,
                          Cuts::columns({cut.q})),
                   gain(h + "post_attention_layernorm.weight", d, cut.whole),
                   matrix(h + "mlp.gate_proj.weight", ffn, d, init.matrix, features),
                   matrix(h + "mlp.up_proj.weight", ffn, d, init.matrix, features),
                   matrix(h + "mlp.down_proj.weight", d, ffn, init.residual,
                          Cuts::columns({Cuts::each(ffn)}))},
        .attention = {1, 2, 3, 4},
        .mlp = {6, 7, 8},
        .block = {.statistics = 1,
                  .norm_flops = kRmsNormFlops,
                  .inner = 2 * sizes.ffn,
                  .rotated = cut.width,
                  .normed_heads = model.qk_norm,
                  .sums = 2}};
    add_qwen_params(h, model, cut, rank, block.params);
    chain.block(std::move(block));
    if (behind_block) chain.then(behind_block(static_cast<std::size_t>(layer), chain.written()));
  }
  std::vector<ParamSpec> head = {gain("model.norm.weight", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), 1);
}

}  // namespace

ModelSpec llama_spec(const Model& model, const PerRank& rank, const Training& training) {
  const Sizes sizes(model, rank);
  Graph graph("llama", rank, training);
  Chain chain(graph, model, sizes);
  chain.embed({llama_embedding(model)}, 0);
  llama_blocks(chain, model, sizes, rank, {});
  return built(std::move(graph), model);
}

ParamSpec llama_embedding(const Model& model) {
  return token_table("model.embed_tokens.weight", model);
}

void llama_behind(Graph& graph, const Model& model, const Embedded& embedded,
                  const BehindBlock& behind_block) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  llama_blocks(chain, model, sizes, graph.rank(), behind_block);
}

}  // namespace trireme::model
