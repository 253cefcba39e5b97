#include "trireme/families/jepa/model.h"

#include <fmt/format.h>

#include <utility>

#include "trireme/config/resolve/resolve.h"
#include "trireme/families/hnet/model.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/model_tower.h"
#include "trireme/model/families/families.h"
#include "trireme/model/families/joint.h"
#include "trireme/model/graph.h"

namespace trireme::model {
namespace {

using plan::UnitId;
using plan::ValueId;

// Builds the program. Student and teacher alternate, so that a pipeline's stages have both of a block.
class Pretraining {
 public:
  Pretraining(const config::Job& job, const PerRank& rank, const Training& training)
      : job_(job),
        vision_(job.vision),
        chunks_(has_chunks(job)),
        graph_(chunks_ ? "hvjepa" : "jepa", rank, training),
        student_(student_encoder(job, rank.micro_batch)),
        teacher_(teacher_encoder(job, rank.micro_batch)),
        predictor_(predictor_encoder(job, rank.micro_batch)) {
    const std::int64_t tokens = student_.rows(), bounds = (student_.sequences + 1) * 4;
    clips_ = graph_.input("clips", clip_bytes(vision_, rank.micro_batch));
    context_ = {graph_.input("context", tokens * 8), graph_.input("context_bounds", bounds)};
    targets_ = {graph_.input("targets", tokens * 8), graph_.input("target_bounds", bounds)};
  }

  ModelSpec build() && {
    embed();
    if (chunks_) chunk();
    for (std::int64_t layer = 0; layer < vision_.layers; ++layer) block(layer);
    norm();
    if (job_.vicreg.weight > 0) vicreg();
    predict();
    ModelSpec spec = std::move(graph_).build();
    spec.metrics = {"teacher_std"};
    if (chunks_) spec.metrics.push_back("chunk_ratio");
    spec.sample_tokens = patch_grid(vision_).tokens();
    return spec;
  }

 private:
  // A unit and the one that follows it.
  std::pair<UnitId, UnitId> followed(const std::string& name, std::vector<ParamSpec> params) {
    const UnitId student = graph_.unit({.name = name, .params = std::move(params)});
    return {student, graph_.average(student, "teacher." + name, kTeacher, kStudent)};
  }

  void embed() {
    const config::Vision vision = chunks_ ? chunk_vision(job_) : vision_;
    const auto [own, average] = followed("embed", video_embed_params(vision, kStudent));
    const plan::NodeWork patches =
        video_embed_transients(graph_, vision, graph_.rank().micro_batch);
    x_ = graph_.node({.name = "embed", .reads = {clips_, context_[0]}, .work = patches},
                     video_embed_work(graph_, vision, student_.rows()), {own},
                     {activation(graph_, tokens(student_), chunks_ ? "tokens0" : "x0")})[0];
    Encoder whole = tokens(teacher_);  // every token of a clip, before they become chunks
    whole.packed = false;
    t_ = graph_.node({.name = "teacher.embed", .reads = {clips_}, .no_grad = true, .work = patches},
                     video_embed_work(graph_, vision, teacher_.rows()), {average},
                     {activation(graph_, whole, chunks_ ? "teacher.tokens0" : "t0")})[0];
  }

  Encoder tokens(const Encoder& encoder) const {
    return chunks_ ? chunk_encoder(job_, encoder) : encoder;
  }

  // Tokens that have seen their neighbours become chunks, student's and teacher's each by boundaries of their own. From here
  // on places stand for tokens and bounds.
  void chunk() {
    const std::string prefix = std::string(kStudent) + "chunk.";
    for (std::int64_t layer = 0; layer < job_.chunk.layers; ++layer) {
      const std::string name = fmt::format("chunk.block.{}", layer);
      const auto [own, average] = followed(
          name, block_params(tokens(student_), fmt::format("{}blocks.{}.", prefix, layer), layer));
      const auto block = [&](const Encoder& encoder, const std::string& role, UnitId unit,
                             const std::vector<ValueId>& reads) {
        return neighbours_node(graph_, job_, tokens(encoder), role + name, unit, reads,
                               fmt::format("{}tokens{}", role, layer + 1), !role.empty());
      };
      x_ = block(student_, "", own, with(x_, context_));
      t_ = block(teacher_, "teacher.", average, {t_});
    }
    const auto [own, average] = followed("chunk", chunk_params(job_, prefix));
    const std::vector<ValueId> student = graph_.node(
        {.name = "chunk", .reads = with(x_, {context_[0], context_[1], targets_[1]})},
        chunk_work(graph_, job_, student_), {exact(graph_, own)},
        {activation(graph_, student_, "x0"), places(graph_, student_, "places", false), ratios()});
    const std::vector<ValueId> teacher = graph_.node(
        {.name = "teacher.chunk", .reads = with(t_, targets_), .no_grad = true},
        chunk_work(graph_, job_, teacher_), {exact(graph_, average)},
        {activation(graph_, teacher_, "t0"), places(graph_, teacher_, "teacher.places", true)});
    x_ = student[0], t_ = teacher[0], ratios_ = student[2];
    context_ = {student[1]}, targets_ = {teacher[1]};
  }

  // The ratio loss of each sequence.
  plan::Value ratios() const {
    return {.name = "ratios",
            .bytes = student_.sequences * static_cast<std::int64_t>(size_of(graph_.rank().compute)),
            .shape = {student_.sequences}};
  }

  void vicreg() {
    plan::Node node = vicreg_node(graph_, job_);
    node.reads = with(x_, context_);
    Work work = vicreg_work(graph_, job_, student_);
    work.saved_bytes += joined_bytes(graph_, job_, node.reads);
    graph_.node(std::move(node), work,
                {graph_.unit({.name = "vicreg", .params = vicreg_params(job_)})},
                {{.name = "vicreg.loss", .bytes = 8}});
  }

  void block(std::int64_t layer) {
    const std::string name = fmt::format("block.{}", layer);
    const auto [own, average] =
        followed(name, block_params(student_, fmt::format("{}blocks.{}.", kStudent, layer), layer));
    x_ = block_node(graph_, student_, name, own, x_, context_, fmt::format("x{}", layer + 1));
    t_ = block_node(graph_, teacher_, "teacher." + name, average, t_,
                    chunks_ ? targets_ : std::vector<ValueId>{}, fmt::format("t{}", layer + 1),
                    true);
  }

  void norm() {
    const auto [own, average] =
        followed("norm", norm_params(std::string(kStudent) + "norm", vision_.hidden));
    x_ = graph_.node({.name = "norm", .reads = {x_}}, norm_work(graph_, student_), {own},
                     {activation(graph_, student_, "seen")})[0];
    t_ = graph_.node({.name = "teacher.norm",
                      .reads = {t_},
                      .no_grad = true,
                      .work = norm_transients(graph_, teacher_)},
                     norm_work(graph_, teacher_), {average},
                     {activation(graph_, teacher_, "features")})[0];
  }

  void predict() {
    const std::int64_t width = predictor_.hidden, rows = student_.rows();
    const double std = vision_.init_std;
    std::vector<ParamSpec> params =
        linear_params("predictor.predictor_embed", width, vision_.hidden, std);
    for (std::int64_t token = 0; token < job_.jepa.mask_tokens; ++token)
      params.push_back(
          {.name = fmt::format("predictor.mask_tokens.{}", token), .shape = {1, 1, width}});
    std::vector<ValueId> packing = context_;
    packing.insert(packing.end(), targets_.begin(), targets_.end());
    ValueId y =
        graph_.node({.name = "predictor.embed", .reads = with(x_, packing)},
                    linear_work(graph_, rows, width * vision_.hidden, rows * vision_.hidden),
                    {graph_.unit({.name = "predictor.embed", .params = std::move(params)})},
                    {activation(graph_, predictor_, "y0")})[0];
    for (std::int64_t layer = 0; layer < job_.jepa.layers; ++layer) {
      const std::string name = fmt::format("predictor.block.{}", layer);
      const std::string prefix = fmt::format("predictor.predictor_blocks.{}.", layer);
      const UnitId unit =
          graph_.unit({.name = name, .params = block_params(predictor_, prefix, layer)});
      y = block_node(graph_, predictor_, name, unit, y, packing, fmt::format("y{}", layer + 1));
    }
    packing.insert(packing.begin(), t_);
    if (chunks_) packing.push_back(ratios_);
    graph_.node(
        {.name = "loss", .reads = with(y, packing), .loss = true},
        linear_work(graph_, rows, width * vision_.hidden, rows * (2 * width + 3 * vision_.hidden)),
        {graph_.unit({.name = "predictor.head",
                      .params = joined({norm_params("predictor.predictor_norm", width),
                                        linear_params("predictor.predictor_proj", vision_.hidden,
                                                      width, std)})})},
        {{.name = "loss", .bytes = 8}});
  }

  static std::vector<ValueId> with(ValueId first, const std::vector<ValueId>& more) {
    std::vector<ValueId> all = {first};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const config::Job& job_;
  const config::Vision& vision_;
  bool chunks_;
  Graph graph_;
  Encoder student_, teacher_, predictor_;
  ValueId clips_ = -1;
  std::vector<ValueId> context_, targets_;
  ValueId x_ = -1, t_ = -1, ratios_ = -1;
};

}  // namespace

Encoder student_encoder(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, kMasks * samples);
  encoder.packed = true;
  encoder.key_bias = has_chunks(job);
  return encoder;
}

Encoder teacher_encoder(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, samples);
  encoder.packed = encoder.key_bias = has_chunks(job);
  return encoder;
}

Encoder predictor_encoder(const config::Job& job, std::int64_t samples) {
  return {.hidden = job.jepa.hidden,
          .heads = job.jepa.heads,
          .ffn = 4 * job.jepa.hidden,
          .tokens = patch_grid(job.vision).tokens(),
          .sequences = kMasks * samples,
          .packed = true,
          .replicated = true,
          .positions = job.vision.positions,
          .activation = job.vision.activation,
          .init_std = job.vision.init_std};
}

ModelSpec jepa_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  return Pretraining(job, rank, training).build();
}

FamilyModel jepa_model() { return {.describe = jepa_spec, .loss = loss_of_features}; }

}  // namespace trireme::model
