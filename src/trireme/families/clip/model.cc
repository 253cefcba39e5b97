#include "trireme/families/clip/model.h"

#include <cmath>
#include <utility>

#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/families/vit/model_tower.h"
#include "trireme/model/families/families.h"
#include "trireme/model/families/joint.h"
#include "trireme/model/graph.h"
#include "trireme/model/layout.h"

namespace trireme::model {
namespace {

using config::Job;

std::int64_t loss_bytes(const PerRank& rank) { return rank.compute == DType::kF64 ? 8 : 4; }

ParamSpec learned_number(std::string name, double value, Bounds bounds = {}) {
  return {.name = std::move(name),
          .shape = {1},
          .init = {.kind = Init::Kind::kConstant, .value = value},
          .decay = 0,
          .bounds = bounds};
}

// CLIP's scale begins at 1 / 0.07 and stays within 1 and 100. SigLIP's begins at 10 without bounds; its bias begins with
// every pair as none.
std::vector<ParamSpec> loss_params(config::ContrastiveLoss loss) {
  if (loss == config::ContrastiveLoss::kClip)
    return {learned_number("logit_scale", -std::log(0.07), {.lower = 0, .upper = std::log(100.0)})};
  return {learned_number("logit_scale", std::log(10.0)), learned_number("logit_bias", -10)};
}

ParamSpec projection_weight(const std::string& name, std::int64_t width, std::int64_t d) {
  return drawn(name, {width, d}, 1 / std::sqrt(static_cast<double>(d)));
}

// Both towers' features of a micro-batch.
class TwoTowers {
 public:
  TwoTowers(const Job& job, const PerRank& rank, const Training& training)
      : job_(job), rank_(rank), samples_(rank.micro_batch), graph_("clip", rank, training) {}

  ModelSpec build() && {
    const config::Vision& vision = job_.vision;
    const plan::ValueId images =
        graph_.input("images", samples_ * 3 * vision.frames * vision.image * vision.image * 4);
    const plan::ValueId tokens = graph_.input("tokens", samples_ * job_.model.seq_len * 8);
    const plan::ValueId ends = graph_.input("ends", samples_ * 8);
    const plan::ValueId seen =
        pooled(tower_nodes(graph_, vision, images, {.nodes = "vision.", .params = "visual."}));
    const plan::ValueId read = last(text(tokens), ends);
    loss(seen, read);
    ModelSpec spec = std::move(graph_).build();
    spec.sample_tokens = tower(vision, 1).tokens + job_.model.seq_len;
    spec.metrics = {"accuracy"};
    return spec;
  }

 private:
  std::int64_t width() const { return job_.contrastive.width; }

  Work projection_work(std::int64_t d) const {
    return linear_work(graph_, samples_, width() * d, samples_ * d);
  }

  plan::ValueId pooled(plan::ValueId x) {
    const config::Vision& vision = job_.vision;
    std::vector<ParamSpec> params = pool_params(vision, "visual.");
    Work work = pool_work(graph_, vision);
    if (projects_images(job_)) {
      params.push_back(projection_weight("visual.projection.weight", width(), vision.hidden));
      work = added(work, projection_work(vision.hidden));
    }
    const plan::UnitId unit = graph_.unit({.name = "vision.head", .params = std::move(params)});
    return graph_.node({.name = "vision.head",
                        .reads = {x},
                        .exchanges = pool_exchanges(graph_, vision, graph_.reached(x))},
                       work, {unit}, {features(graph_, "vision.features", width())})[0];
  }

  plan::ValueId text(plan::ValueId tokens) {
    const config::Model& model = job_.model;
    const Encoder encoder = text_tower(job_, samples_);
    const plan::UnitId unit = graph_.unit(
        {.name = "text.embed",
         .params = {drawn("text.token_embedding.weight", {model.vocab, model.hidden},
                          model.init_std, {.dim = 0, .segments = {{.granules = model.vocab}}}),
                    drawn("text.pos_embed", {model.seq_len, model.hidden}, model.init_std / 2)}});
    plan::Value x0 = activation(graph_, encoder, "text.x.0");
    std::vector<plan::NodeExchange> sums;
    if (rank_.tp > 1)
      sums = {{.kind = plan::Exchange::kAllReduce,
               .axes = mesh::Axis::kTp,
               .bytes = x0.bytes,
               .forward = 1}};
    const plan::ValueId x = graph_.node(
        {.name = "text.embed", .reads = {tokens}, .looks_up = true, .exchanges = std::move(sums)},
        {}, {unit}, {std::move(x0)})[0];
    return block_nodes(graph_, encoder, model.layers, x, {.nodes = "text.", .params = "text."});
  }

  // The feature of a caption is its last token's.
  plan::ValueId last(plan::ValueId x, plan::ValueId ends) {
    const std::int64_t d = job_.model.hidden;
    std::vector<ParamSpec> params = norm_params("text.norm", d);
    params.push_back(projection_weight("text.projection.weight", width(), d));
    const plan::UnitId unit = graph_.unit({.name = "text.head", .params = std::move(params)});
    return graph_.node({.name = "text.head", .reads = {x, ends}}, projection_work(d), {unit},
                       {features(graph_, "text.features", width())})[0];
  }

  // Every rank compares its own rows with those of all.
  void loss(plan::ValueId seen, plan::ValueId read) {
    plan::Node node{.name = "loss",
                    .reads = {seen, read},
                    .loss = true,
                    .joint = config::caches_gradients(job_)};
    const bool both = job_.contrastive.loss == config::ContrastiveLoss::kClip;
    Work work = both ? gathered(node) : round(node);
    work.saved_bytes += joined_bytes(graph_, job_, node.reads);
    const plan::UnitId unit =
        graph_.unit({.name = "loss", .params = loss_params(job_.contrastive.loss)});
    graph_.node(std::move(node), work, {unit}, {{.name = "loss", .bytes = loss_bytes(rank_)}});
  }

  // Samples here and on all data-parallel ranks.
  std::int64_t own() const { return config::samples_of_loss(job_); }
  std::int64_t all() const { return own() * config::dp(job_); }

  plan::NodeExchange exchange(plan::Exchange kind, std::int64_t rows, int forward,
                              int backward) const {
    return {.kind = kind,
            .axes = mesh_of(job_).real(mesh::kDp),
            .bytes = rows * width() * loss_bytes(rank_),
            .forward = forward,
            .backward = backward};
  }

  // CLIP: all images against the captions here and all captions against the images here.
  Work gathered(plan::Node& node) const {
    if (all() > own())
      node.exchanges = {exchange(plan::Exchange::kAllGather, 2 * all(), 1, 0),
                        exchange(plan::Exchange::kReduceScatter, 2 * all(), 0,
                                 graph_.reached(node.reads[0]) || graph_.reached(node.reads[1]))};
    return {.saved_bytes = 2 * (all() * width() + 2 * own() * all()) * loss_bytes(rank_),
            .flops = 4.0 * static_cast<double>(own() * all() * width())};
  }

  // SigLIP: captions and their gradients go round, and forward makes all gradients.
  Work round(plan::Node& node) const {
    constexpr int kSquares = 5;  // of rows here against as many elsewhere, at a time
    const int ranks = config::dp(job_);
    if (ranks > 1)
      node.exchanges = {exchange(plan::Exchange::kSendRecv, 2 * own(), ranks - 1, 0),
                        exchange(plan::Exchange::kSendRecv, own(), 1, 0)};
    node.work.forward = (kSquares * own() * own() + 4 * own() * width()) * loss_bytes(rank_);
    return {.saved_bytes = 2 * own() * width() * loss_bytes(rank_),
            .flops = 6.0 * static_cast<double>(own() * all() * width()),
            .backward_flops = 0};
  }

  const Job& job_;
  const PerRank& rank_;
  std::int64_t samples_;
  Graph graph_;
};

}  // namespace

Encoder text_tower(const Job& job, std::int64_t sequences) {
  const config::Model& model = job.model;
  return {.hidden = model.hidden,
          .heads = model.heads,
          .ffn = model.ffn,
          .tokens = model.seq_len,
          .sequences = sequences,
          .causal = true,
          .activation = job.vision.activation,
          .init_std = model.init_std};
}

bool projects_images(const Job& job) {
  return job.vision.pooling != config::Pooling::kAttention ||
         job.vision.hidden != job.contrastive.width;
}

ModelSpec clip_spec(const Job& job, const PerRank& rank, const Training& training) {
  return TwoTowers(job, rank, training).build();
}

FamilyModel clip_model() {
  return {.describe = clip_spec, .loss = [](const config::Job& job) -> LossLabel {
            const bool pairs = job.contrastive.loss == config::ContrastiveLoss::kSiglip;
            return {.name = pairs ? "sigmoid loss of pairs" : "contrastive cross-entropy",
                    .unit = kNatsPerSample};
          }};
}

}  // namespace trireme::model
