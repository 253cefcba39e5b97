#include "trireme/families/jepa_ac/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trireme/families/jepa/model_tower.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"

namespace trireme::model {
namespace {

using plan::UnitId;
using plan::ValueId;

// Not the names of the predictor of pretraining, which is another.
constexpr char kParameters[] = "action_predictor.";

class Predictor {
 public:
  Predictor(const config::Job& job, const PerRank& rank, const Training& training)
      : job_(job), samples_(rank.micro_batch), graph_("jepa_ac", rank, training) {
    const std::int64_t numbers = samples_ * (job.vision.frames - 1) * config::kActionNumbers;
    const ValueId clips = graph_.input("clips", clip_bytes(job.vision, samples_));
    conditions_ = {graph_.input("actions", numbers * 4), graph_.input("states", numbers * 4)};
    weights_ = graph_.input("weights", samples_ * 4);
    features_ = frozen_tower(graph_, job, frame_tower(job, samples_), clips);
    make_units();
  }

  ModelSpec build() && {
    const std::int64_t frames = job_.vision.frames;
    std::vector<ValueId> predictions = {run("predictor.", frames - 1, frames - 1, {features_})};
    for (std::int64_t roll = 2; roll <= job_.action.rollout; ++roll) {
      std::vector<ValueId> reads = predictions;
      reads.insert(reads.begin(), features_);
      predictions.push_back(run(fmt::format("rollout.{}.", roll), roll, 1, std::move(reads)));
    }
    predictions.insert(predictions.begin(), features_);
    predictions.push_back(weights_);
    const std::int64_t numbers = samples_ * frames * patches() * job_.vision.hidden;
    // Frames that were predicted, and how far each is from the real one.
    const std::int64_t apart = 2 * numbers * (frames - 1) / frames * statistic();
    graph_.node({.name = "loss",
                 .reads = std::move(predictions),
                 .loss = true,
                 .work = {.forward = apart, .backward = apart}},
                linear_work(graph_, numbers, 1, exact(2 * numbers)), {},
                {{.name = "loss", .bytes = 8}});
    ModelSpec spec = std::move(graph_).build();
    spec.sample_tokens = frames * patches();
    return spec;
  }

 private:
  std::int64_t element() const { return static_cast<std::int64_t>(size_of(graph_.rank().compute)); }
  // Bytes of what is computed in fp32 at least, and such numbers as numbers of the compute type.
  std::int64_t statistic() const { return std::max<std::int64_t>(4, element()); }
  std::int64_t exact(std::int64_t numbers) const { return numbers * statistic() / element(); }
  std::int64_t patches() const {
    const PatchGrid grid = patch_grid(job_.vision);
    return grid.rows * grid.columns;
  }

  void make_units() {
    const std::int64_t width = job_.action.hidden, size = config::kActionNumbers;
    const std::int64_t features = job_.vision.hidden;
    const double std = job_.vision.init_std;
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      return linear_params(kParameters + name, out, in, std);
    };
    // Extrinsics are of cameras that no source has yet: their encoder is there for checkpoints and has no gradient.
    embed_ = graph_.unit({.name = "predictor.embed",
                          .params = joined({linear("predictor_embed", width, features),
                                            linear("action_encoder", width, size),
                                            linear("state_encoder", width, size),
                                            linear("extrinsics_encoder", width, kExtrinsics)})});
    const Encoder encoder = action_encoder(job_, samples_, 1);
    for (std::int64_t layer = 0; layer < job_.action.layers; ++layer)
      blocks_.push_back(graph_.unit(
          {.name = fmt::format("predictor.block.{}", layer),
           .params = block_params(
               encoder, fmt::format("{}predictor_blocks.{}.", kParameters, layer), layer)}));
    head_ = graph_.unit(
        {.name = "predictor.head",
         .params = joined({norm_params(kParameters + std::string("predictor_norm"), width),
                           linear("predictor_proj", features, width)})});
  }

  // One run over `frames` frames, of which the last `kept` frames' predictions are wanted: [samples, patches, features].
  ValueId run(const std::string& name, std::int64_t frames, std::int64_t kept,
              std::vector<ValueId> reads) {
    const Encoder encoder = action_encoder(job_, samples_, frames);
    const std::int64_t features = job_.vision.hidden, products = features * encoder.hidden;
    const std::int64_t rows = samples_ * frames * patches();
    reads.insert(reads.end(), conditions_.begin(), conditions_.end());
    // Frames put together and their gradients, and what the layer gives before actions and states join it.
    const std::int64_t frame_bytes = rows * features * element();
    const std::int64_t given = rows * encoder.hidden * element();
    ValueId x = graph_.node(
        {.name = name + "embed",
         .reads = std::move(reads),
         .work = {.forward = frame_bytes + 2 * given, .backward = 2 * frame_bytes + 2 * given}},
        linear_work(graph_, rows, products, rows * features), {embed_},
        {activation(graph_, encoder, name + "x0")})[0];
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
      x = block_node(graph_, encoder, fmt::format("{}block.{}", name, layer), blocks_[layer], x, {},
                     fmt::format("{}x{}", name, layer + 1));
    Encoder predicted = tower(job_.vision, samples_);
    predicted.tokens = kept * patches();
    // Kept for the wanted frames: rows without conditions, results of their norm, projections before they are
    // normalised, and one number a row of each.
    const std::int64_t wanted = samples_ * kept * patches();
    return graph_.node(
        {.name = name + "head",
         .reads = {x},
         .work = {.forward = wanted * features * statistic(),
                  .backward = wanted * features * statistic()}},
        linear_work(graph_, rows, products, wanted * (2 * encoder.hidden + exact(features + 4))),
        {head_}, {activation(graph_, predicted, name + "out")})[0];
  }

  const config::Job& job_;
  std::int64_t samples_;
  Graph graph_;
  std::vector<ValueId> conditions_;
  ValueId weights_ = -1, features_ = -1;
  UnitId embed_ = -1, head_ = -1;
  std::vector<UnitId> blocks_;
};

}  // namespace

Encoder frame_tower(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, samples * job.vision.frames);
  const PatchGrid grid = patch_grid(job.vision);
  encoder.tokens = grid.rows * grid.columns;
  return encoder;
}

Encoder action_encoder(const config::Job& job, std::int64_t samples, std::int64_t frames) {
  const PatchGrid grid = patch_grid(job.vision);
  return {.hidden = job.action.hidden,
          .heads = job.action.heads,
          .ffn = 4 * job.action.hidden,
          .tokens = frames * (kConditions + grid.rows * grid.columns),
          .sequences = samples,
          .causal = true,
          .positions = job.vision.positions,
          .activation = job.vision.activation,
          .init_std = job.vision.init_std};
}

ModelSpec action_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  return Predictor(job, rank, training).build();
}

FamilyModel jepa_ac_model() { return {.describe = action_spec, .loss = loss_of_features}; }

}  // namespace trireme::model
