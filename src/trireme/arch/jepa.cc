#include "trireme/arch/jepa.h"

#include <fmt/format.h>

#include <utility>

#include "trireme/arch/clip_tower.h"
#include "trireme/arch/flops.h"
#include "trireme/arch/graph.h"

namespace trireme::arch {
namespace {

using plan::UnitId;
using plan::ValueId;

// Builds the program. Student and teacher alternate, so that a pipeline's stages have both of a block.
class Pretraining {
 public:
  Pretraining(const config::Job& job, const PerRank& rank, const Training& training)
      : job_(job),
        vision_(job.vision),
        graph_("jepa", rank, training),
        student_(student_encoder(job, rank.micro_batch)),
        teacher_(tower(job.vision, rank.micro_batch)),
        predictor_(predictor_encoder(job, rank.micro_batch)) {
    const std::int64_t tokens = student_.rows(), bounds = (student_.sequences + 1) * 4;
    clips_ = graph_.input("clips", clip_bytes(vision_, rank.micro_batch));
    context_ = {graph_.input("context", tokens * 8), graph_.input("context_bounds", bounds)};
    targets_ = {graph_.input("targets", tokens * 8), graph_.input("target_bounds", bounds)};
  }

  ModelSpec build() && {
    embed();
    for (std::int64_t layer = 0; layer < vision_.layers; ++layer) block(layer);
    norm();
    predict();
    ModelSpec spec = std::move(graph_).build();
    spec.metrics = {"teacher_std"};
    spec.sample_tokens = patch_grid(vision_).tokens();
    set_flops_of_nodes(spec, graph_.rank());
    return spec;
  }

 private:
  // A unit and the one that follows it.
  std::pair<UnitId, UnitId> followed(const std::string& name, std::vector<ParamSpec> params) {
    const UnitId student = graph_.unit({.name = name, .params = std::move(params)});
    return {student, graph_.average(student, "teacher." + name, kTeacher, kStudent)};
  }

  void embed() {
    const auto [own, average] = followed("embed", clip_embed_params(vision_, kStudent));
    x_ = graph_.node({.name = "embed", .reads = {clips_, context_[0]}},
                     clip_embed_work(graph_, vision_, student_.rows()), {own},
                     {activation(graph_, student_, "x0")})[0];
    t_ = graph_.node({.name = "teacher.embed", .reads = {clips_}, .no_grad = true},
                     clip_embed_work(graph_, vision_, teacher_.rows()), {average},
                     {activation(graph_, teacher_, "t0")})[0];
  }

  void block(std::int64_t layer) {
    const std::string name = fmt::format("block.{}", layer);
    const auto [own, average] =
        followed(name, block_params(student_, fmt::format("{}blocks.{}.", kStudent, layer), layer));
    x_ = block_node(graph_, student_, name, own, x_, context_, fmt::format("x{}", layer + 1));
    t_ = block_node(graph_, teacher_, "teacher." + name, average, t_, {},
                    fmt::format("t{}", layer + 1), true);
  }

  void norm() {
    const auto [own, average] =
        followed("norm", norm_params(std::string(kStudent) + "norm", vision_.hidden));
    x_ = graph_.node({.name = "norm", .reads = {x_}}, norm_work(graph_, student_), {own},
                     {activation(graph_, student_, "seen")})[0];
    t_ = graph_.node({.name = "teacher.norm", .reads = {t_}, .no_grad = true},
                     norm_work(graph_, teacher_), {average},
                     {activation(graph_, teacher_, "features")})[0];
  }

  void predict() {
    const std::int64_t width = predictor_.hidden, rows = student_.rows();
    const double std = vision_.init_std;
    std::vector<ParamSpec> params =
        linear_params("predictor.predictor_embed", width, vision_.hidden, std);
    for (std::int64_t mask = 0; mask < kMasks; ++mask)
      params.push_back(
          {.name = fmt::format("predictor.mask_tokens.{}", mask), .shape = {1, 1, width}});
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
  Graph graph_;
  Encoder student_, teacher_, predictor_;
  ValueId clips_ = -1;
  std::vector<ValueId> context_, targets_;
  ValueId x_ = -1, t_ = -1;
};

}  // namespace

Encoder student_encoder(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, kMasks * samples);
  encoder.packed = true;
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
          .activation = job.vision.activation,
          .init_std = job.vision.init_std};
}

ModelSpec jepa_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  return Pretraining(job, rank, training).build();
}

}  // namespace trireme::arch
