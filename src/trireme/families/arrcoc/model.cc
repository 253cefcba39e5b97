#include "trireme/families/arrcoc/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/families/arrcoc/keys_checks.h"
#include "trireme/families/gpt/model.h"
#include "trireme/families/llama/model.h"
#include "trireme/families/vit/model_tower.h"
#include "trireme/families/vlm/model_projector.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"

namespace trireme::model {
namespace {

constexpr std::int64_t kStatistics = 26;  // mean and deviation of the texture's channels
constexpr std::int64_t kSalience = 3;
constexpr std::int64_t kTextureSide = 256;  // families/arrcoc/blocks_texture.h
constexpr double kSteep = 4;                // of what information and coupling begin with

ParamSpec constant(std::string name, std::vector<std::int64_t> shape, double value) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = {.kind = Init::Kind::kConstant, .value = value},
          .decay = 0};
}

class ArrcocGraph {
 public:
  ArrcocGraph(const config::Job& job, const PerRank& rank, const Training& training)
      : job_(job),
        graph_("arrcoc", rank, training),
        tower_(region_tower(job)),
        samples_(rank.micro_batch),
        regions_(job.arrcoc.grid * job.arrcoc.grid) {}

  ModelSpec build() && {
    const std::int64_t side = job_.vision.image, text = samples_ * config::text_tokens(job_) * 8;
    image_ = graph_.input("image", samples_ * 3 * side * side * 4);
    text_ = graph_.input("text", text);
    asked_ = graph_.input("asked", samples_ * 8);
    const plan::ValueId targets = graph_.input("targets", text);
    noise_ = graph_.input("noise", samples_ * regions_ * 4);
    if (!config::asks_regions(job_)) sizes_ = {graph_.input("sizes", samples_ * 2 * 8)};
    embed();
    add_scorers();
    add_tower();
    add_projector();
    add_decoder({.x = splice(), .targets = targets, .positions = levels_, .unit = embed_});
    ModelSpec spec = std::move(graph_).build();
    spec.metrics = {"exact", "accuracy",
                    config::asks_regions(job_) ? "queried_tokens" : "largest_region"};
    if (job_.arrcoc.learn_budget) spec.metrics.push_back("image_tokens");
    spec.sample_tokens = job_.model.seq_len;
    return spec;
  }

 private:
  plan::Value per_region(std::string name, bool differentiable) const {
    return {.name = std::move(name),
            .bytes = samples_ * regions_ * element(),
            .differentiable = differentiable,
            .shape = {samples_, regions_}};
  }
  plan::Value rows(std::string name, std::int64_t width) const {
    return {.name = std::move(name),
            .bytes = tower_.rows() * width * element(),
            .shape = {tower_.rows(), width},
            .whole = graph_.rank().tp > 1,
            .varies = true};
  }
  std::vector<plan::ValueId> with_sizes(std::vector<plan::ValueId> reads) const {
    reads.insert(reads.end(), sizes_.begin(), sizes_.end());
    return reads;
  }
  // Bytes of one number of every pixel of the micro-batch, in the type of statistics.
  std::int64_t plane(std::int64_t side) const {
    return samples_ * side * side * (graph_.rank().compute == DType::kF64 ? 8 : 4);
  }
  std::int64_t element() const { return static_cast<std::int64_t>(size_of(graph_.rank().compute)); }

  bool gpt() const { return job_.arrcoc.decoder == config::RegionDecoder::kGpt; }

  void embed() {
    config::Model text = job_.model;
    text.seq_len = config::text_tokens(job_);
    const Sizes sizes(text, graph_.rank());
    embed_ = graph_.unit(
        {.name = "embed", .params = {gpt() ? gpt_embedding(text) : llama_embedding(text)}});
    const std::int64_t width = samples_ * text.hidden * element();
    const std::vector<plan::ValueId> written =
        graph_.node({.name = "embed",
                     .reads = {text_, asked_},
                     .looks_up = true,
                     .work = embed_transients(text, sizes, graph_.rank()),
                     .exchanges = Exchanges(sizes, graph_.rank()).embed()},
                    {}, {embed_},
                    {{.name = "embedded",
                      .bytes = width * text.seq_len,
                      .shape = {samples_, text.seq_len, text.hidden}},
                     {.name = "question",
                      .bytes = width,
                      .differentiable = false,
                      .shape = {samples_, text.hidden}}});
    embedded_ = written[0];
    question_ = written[1];
  }

  void add_scorers() {
    const bool learned = job_.arrcoc.allocation == config::Allocation::kLearned;
    std::vector<plan::UnitId> units;
    bool trains = false;
    if (learned) {
      trains = job_.arrcoc.gate && graph_.training().trains("scorers");
      units.push_back(graph_.unit({.name = "scorers", .params = scorer_params(job_)}, trains));
    }
    const std::int64_t h = job_.arrcoc.hidden;
    std::vector<plan::Value> writes = {per_region("shares", true), per_region("levels", false)};
    if (trains && config::charges(job_.arrcoc))
      writes.push_back({.name = "charge", .bytes = samples_ * element(), .shape = {samples_}});
    const std::vector<plan::ValueId> written = graph_.node(
        {.name = "scorers",
         .reads = with_sizes({noise_, image_, question_}),
         .no_grad = !trains,
         .work = learned ? texture_transients() : plan::NodeWork{}},
        linear_work(graph_, samples_ * regions_, learned ? 2 * h * (kStatistics + h) : 0,
                    learned ? samples_ * regions_ * (kStatistics + 6 * h) : 0),
        units, std::move(writes));
    if (written.size() > 2) charge_ = {written[2]};
    shares_ = written[0];
    levels_ = written[1];
  }

  // Colours of a picture as the texture's channels: three at most at a time, with their logarithms, powers and copies
  // by region. Also the picture in another type and size.
  plan::NodeWork texture_transients() const {
    constexpr std::int64_t kPlanes = 29;
    const std::int64_t side = job_.vision.image;
    const bool typed = graph_.rank().compute == DType::kF64, own = !sizes_.empty();
    const std::int64_t bytes =
        kPlanes * plane(std::min(side, kTextureSide)) + (typed + own) * 3 * plane(side);
    return {.forward = bytes, .passing = bytes};
  }

  void add_tower() {
    const config::Vision& vision = job_.vision;
    const plan::UnitId unit =
        graph_.unit({.name = "vision.embed",
                     .params = linear_params("vision_tower.patch_embed.proj", vision.hidden,
                                             3 * vision.patch * vision.patch, vision.init_std)});
    const std::int64_t features = 3 * vision.patch * vision.patch;
    Work work =
        linear_work(graph_, tower_.rows(), vision.hidden * features, tower_.rows() * features);
    work.backward_flops = work.flops;  // pixels have no gradient
    // The picture between -1 and 1, and patches of each level before they are put together.
    const std::int64_t cut = 2 * 3 * plane(vision.image) + tower_.rows() * features * 4;
    x_ = graph_.node({.name = "vision.embed",
                      .reads = with_sizes({image_, levels_}),
                      .work = {.forward = cut, .passing = cut}},
                     work, {unit}, {activation(graph_, tower_, "vision.x.0")})[0];
    for (std::int64_t layer = 0; layer < vision.layers; ++layer) {
      const std::string name = fmt::format("vision.block.{}", layer);
      const plan::UnitId block = graph_.unit(
          {.name = name,
           .params = block_params(tower_, fmt::format("vision_tower.blocks.{}.", layer), layer)});
      x_ = block_node(graph_, tower_, name, block, x_, {levels_},
                      fmt::format("vision.x.{}", layer + 1));
    }
  }

  void add_projector() {
    const plan::UnitId norm = graph_.unit(
        {.name = "vision.norm", .params = norm_params("vision_tower.norm", job_.vision.hidden)});
    std::vector<plan::UnitId> units = {norm};
    if (job_.projector.kind != config::ProjectorKind::kNone)
      units.push_back(graph_.unit({.name = "projector", .params = projector_params(job_)}));
    x_ = graph_.node({.name = "projector", .reads = {x_}},
                     projector_work(graph_, job_, tower_.sequences, tower_.tokens), units,
                     {rows("visual_tokens", job_.model.hidden)})[0];
  }

  void add_decoder(const Embedded& embedded) {
    if (gpt())
      gpt_after(graph_, job_.model, embedded);
    else
      llama_after(graph_, job_, embedded);
    std::vector<plan::ValueId>& reads = graph_.spec().program.nodes.back().reads;
    reads.push_back(levels_);
    if (config::asks_regions(job_)) reads.push_back(text_);
    reads.insert(reads.end(), charge_.begin(), charge_.end());
  }

  plan::ValueId splice() {
    const Sizes sizes(job_.model, graph_.rank());
    const plan::UnitId levels = graph_.unit(
        {.name = "levels",
         .params = {constant("model.level_embedding",
                             {job_.arrcoc.most - job_.arrcoc.least + 1, job_.model.hidden}, 0)}});
    // Rows with their level's embedding, and rows and text at every place.
    const std::int64_t placed = 3 * sizes.rows * sizes.d * sizes.element;
    const std::int64_t seen = tower_.rows() * sizes.d * sizes.element;
    return graph_.node({.name = "splice",
                        .reads = {embedded_, x_, shares_, levels_},
                        .work = {.forward = placed + seen, .passing = placed + seen}},
                       {.saved_bytes = 2 * tower_.rows() * sizes.d * sizes.element}, {levels},
                       {{.name = "x0",
                         .bytes = sizes.rows * sizes.d * sizes.element,
                         .shape = {samples_, job_.model.seq_len, sizes.d},
                         .whole = graph_.rank().tp > 1}})[0];
  }

  const config::Job& job_;
  Graph graph_;
  Encoder tower_;
  std::int64_t samples_, regions_;
  plan::ValueId image_ = -1, text_ = -1, asked_ = -1, noise_ = -1;
  std::vector<plan::ValueId> sizes_, charge_;  // where there are any
  plan::ValueId embedded_ = -1, question_ = -1;
  plan::ValueId shares_ = -1, levels_ = -1, x_ = -1;
  plan::UnitId embed_ = -1;
};

}  // namespace

std::vector<ParamSpec> scorer_params(const config::Job& job) {
  const config::Scored scored = config::scored(job.arrcoc);
  const std::int64_t h = job.arrcoc.hidden, space = job.arrcoc.coupling, w = job.arrcoc.balancer;
  const std::int64_t d = job.model.hidden, n = scored.count();
  const std::int64_t tensions = job.arrcoc.learn_budget ? 3 : 2;
  const auto kept = [](std::int64_t width) { return 1 / std::sqrt(static_cast<double>(width)); };
  const double std = job.model.init_std;
  std::vector<std::vector<ParamSpec>> lists = {norm_params("scorers.norm", kStatistics)};
  const auto add = [&](std::vector<ParamSpec> params) { lists.push_back(std::move(params)); };
  const auto perceptron = [&](const std::string& name) {
    add(linear_params(name + ".fc1", h, kStatistics, kept(kStatistics)));
    add(linear_params(name + ".fc2", h, h, kept(h)));
  };
  const auto score = [&](const std::string& name, std::int64_t numbers, double begins) {
    add({constant(name + ".scale", {1, numbers}, begins), drawn(name + ".weight", {1, h}, std),
         zeros(name + ".bias", 1)});
  };
  if (scored.information || scored.salience) perceptron("scorers.features");
  if (scored.information) score("scorers.information", 1, kSteep);
  if (scored.salience) score("scorers.salience", kSalience, 1);
  if (scored.coupling) {
    perceptron("scorers.coupling");
    add({drawn("scorers.coupling.region", {space, h}, kept(h)),
         drawn("scorers.coupling.question", {space, d}, kept(d)),
         constant("scorers.coupling.scale", {1}, kSteep), zeros("scorers.coupling.bias", 1)});
  }
  add({drawn("balancer.question", {w, d}, kept(d))});
  add(linear_params("balancer.fc1", w, 3 * n + w, kept(3 * n + w)));
  add(linear_params("balancer.fc2", 2 * n + tensions, w, std));
  return joined(std::move(lists));
}

Encoder region_tower(const config::Job& job) {
  const config::Arrcoc& arrcoc = job.arrcoc;
  Encoder encoder = tower(job.vision, job.run.micro_batch);
  encoder.tokens = arrcoc.grid * arrcoc.grid * arrcoc.least * arrcoc.least + arrcoc.budget;
  encoder.packed = true;
  encoder.positions = config::Positions::kRotary;
  return encoder;
}

ModelSpec arrcoc_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  return ArrcocGraph(job, rank, training).build();
}

FamilyModel arrcoc_model() {
  return {.describe = arrcoc_spec, .loss = [](const config::Job& job) {
            LossLabel label = loss_of_answers(job);
            if (job.arrcoc.entropy_weight > 0) label.name += ", less the entropy of the allocation";
            return label;
          }};
}

}  // namespace trireme::model
