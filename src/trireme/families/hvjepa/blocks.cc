#include "trireme/families/hvjepa/blocks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/std.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hnet/model.h"
#include "trireme/families/hvjepa/blocks_neighbours.h"
#include "trireme/families/hvjepa/blocks_read_out.h"
#include "trireme/families/hvjepa/blocks_vicreg_loss.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/hvjepa/model_tower.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/jepa/model.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

int parts_of(const config::Job& job) { return model::exact_parts(job.precision.compute); }

at::Tensor bounds_of(const std::vector<std::int64_t>& bounds, at::Device device) {
  return at::tensor(bounds, at::kLong).to(at::kInt).to(device);
}

// What a sequence begins with in the column of starts where its sample only fills up a batch.
constexpr double kFiller = 2;

// starts: [chunks], 1 where a sequence begins; bounds: of targets, which a filler lacks.
at::Tensor with_fillers(const at::Tensor& starts, const at::Tensor& bounds) {
  const at::Tensor marks = at::where(bounds.diff() > 0, 1.0, kFiller).to(starts.options());
  return starts.masked_scatter(starts > 0, marks);
}

// Tokens become chunks. Reads tokens. A student also reads their indices and the bounds of targets, where samples that
// only fill up a batch have none; a teacher also reads the masked tokens. Writes chunks and their places. A student
// also writes the ratio loss of each sequence; a frozen tower also writes the trees and, if they are added later, the
// tokens.
class ChunkBlock : public BoundBlock {
 public:
  enum class Role { kStudent, kTeacher, kFrozen };
  ChunkBlock(const config::Job& job, Role role, Ranks across)
      : BoundBlock(std::move(across)), job_(job), role_(role) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::ScalarType type = comm::scalar_type(job_.precision.compute);
    const at::Tensor own = inputs[0].dim() == 3 ? inputs[0].flatten(0, 1) : inputs[0];
    const GridRows rows = grid_rows(role_ == Role::kStudent ? inputs : std::vector{inputs[0]}, 1,
                                    own.size(0), model::patch_grid(job_.vision));
    const at::Tensor x = ops::layer_norm(own, param(kNorm), param(kNormBias), job_.vision.norm_eps,
                                         context.weight_gradients);
    const bool routes = params() > kRouterQuery;
    const Forest trees = forest(x, routes ? param(kRouterQuery) : at::Tensor(),
                                routes ? param(kRouterKey) : at::Tensor(), rows, job_.chunk);
    PooledChunks chunks = pool(x, trees, rows,
                               {.query = param(kQuery),
                                .query_bias = param(kQueryBias),
                                .kv = param(kKv),
                                .kv_bias = param(kKvBias)});
    if (role_ == Role::kStudent) chunks.starts = with_fillers(chunks.starts, inputs[3]);
    const at::Tensor hidden =
        role_ == Role::kTeacher ? hidden_chunks(trees, inputs[1], inputs[2]) : at::Tensor();
    std::vector<at::Tensor> written = {
        ops::linear(chunks.x, param(kOut), param(kOutBias), context.weight_gradients),
        Places::packed(chunks, hidden, parts_of(job_), type)};
    if (role_ == Role::kStudent) written.push_back(ratios(trees, rows.sequences));
    const auto by_clip = [&](const at::Tensor& of) {
      return of.unflatten(0, {rows.sequences.count(), -1});
    };
    if (role_ == Role::kFrozen)
      written.push_back(by_clip(packed_trees(trees, parts_of(job_), type)));
    if (role_ == Role::kFrozen && model::adds_tokens(job_)) written.push_back(by_clip(x));
    return written;
  }

 private:
  enum Param {
    kNorm,
    kNormBias,
    kQuery,
    kQueryBias,
    kKv,
    kKvBias,
    kOut,
    kOutBias,
    kRouterQuery,
    kRouterKey
  };

  at::Tensor ratios(const Forest& trees, const Sequences& sequences) const {
    if (job_.chunk.mode == config::ChunkMode::kFixed)
      return at::zeros({sequences.count()}, trees.p.options());
    return ratio_losses(trees.p, trees.boundary, sequences, static_cast<double>(job_.chunk.ratio));
  }

  config::Job job_;
  Role role_;
};

// Inputs: what the predictor made of rows, the teacher's chunks, the student's and the teacher's places, and the ratio
// losses. Counts the teacher's standard deviation over a clip's chunks, and chunks out of tokens.
class HvjepaLoss : public PredictionLoss {
 public:
  HvjepaLoss(const config::Job& job, Ranks across)
      : PredictionLoss(job.vision.norm_eps, std::move(across)), job_(job) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const Places teacher(inputs[3], parts_of(job_)), student(inputs[2], parts_of(job_));
    const ChunkPacking chunks(student, teacher);
    if (context.counts != nullptr)
      count(inputs[1], teacher.sequences, student.there, *context.counts);
    const at::Tensor predicted =
        distance(inputs[0], chunks.packing, inputs[1].index_select(0, chunks.rows), context);
    const std::vector<double> weights(student.there.begin(), student.there.end());
    const at::Tensor ratio =
        (inputs[4].to(predicted.scalar_type()) * at::tensor(weights, predicted.options())).sum() /
        model::kMasks;
    return {predicted + model::kRatioWeight * ratio};
  }

 private:
  // `there`: of each masked view.
  void count(const at::Tensor& features, const Sequences& clips, const std::vector<bool>& there,
             exec::Counts& counts) const {
    const at::Tensor exact = features.to(statistics_type(features.scalar_type()));
    for (std::size_t s = 0; s + 1 < clips.bounds.size(); ++s) {
      if (!there[s * model::kMasks]) continue;
      const std::int64_t first = clips.bounds[s], chunks = clips.bounds[s + 1] - first;
      const double spread =
          chunks > 1 ? at::std(exact.narrow(0, first, chunks), /*dim=*/0).mean().item<double>() : 0;
      counts.add(0, spread, 1);
      counts.add(1, static_cast<double>(chunks),
                 static_cast<double>(model::patch_grid(job_.vision).tokens()));
    }
  }

  config::Job job_;
};

Pack pack_of_places(const config::Job& job) {
  return [parts = parts_of(job)](const std::vector<at::Tensor>& inputs, std::size_t first) {
    return ChunkPacking(Places(inputs[first], parts), Places(inputs[first + 1], parts)).packing;
  };
}

EncoderBlock::Look predictor_look(const config::Job& job) {
  return made_once([pack = pack_of_places(job), width = job.jepa.hidden / job.jepa.heads,
                    pairs = rotary_pairs(job.vision)](const std::vector<at::Tensor>& inputs) {
    const Packing packing = pack(inputs, 1);
    return packed_sight(axial_rotary(packing.tokens, width, pairs, packing.tokens.scalar_type()),
                        packing.bounds);
  });
}

}  // namespace

std::unique_ptr<exec::Block> frozen_chunks(const config::Job& job, const Ranks& ranks) {
  return std::make_unique<ChunkBlock>(job, ChunkBlock::Role::kFrozen, ranks);
}

EncoderBlock::Look chunk_look(const config::Job& job) {
  const config::Vision vision = job.vision;
  return made_once([vision, parts = parts_of(job)](const std::vector<at::Tensor>& inputs) {
    const Places places(inputs[1], parts);
    Sight sight = packed_sight(axial_rotary(places.centroids, vision.hidden / vision.heads,
                                            rotary_pairs(vision), places.centroids.scalar_type()),
                               places.bounds());
    sight.key_bias = places.log_sizes;
    return sight;
  });
}

at::Tensor Places::packed(const PooledChunks& chunks, const at::Tensor& hidden, int parts,
                          at::ScalarType type) {
  std::vector<at::Tensor> columns;
  for (std::int64_t axis = 0; axis < 3; ++axis)
    columns.push_back(in_parts(chunks.centroids.select(1, axis), parts, type));
  columns.push_back(chunks.sizes.to(at::kDouble).log().to(type).unsqueeze(1));
  columns.push_back(chunks.starts.to(type).unsqueeze(1));
  if (hidden.defined()) columns.push_back(hidden.to(type));
  return at::cat(columns, 1);
}

Places::Places(const at::Tensor& packed, int parts) : sequences(packed.select(1, 3 * parts + 1)) {
  std::vector<at::Tensor> axes;
  for (std::int64_t axis = 0; axis < 3; ++axis)
    axes.push_back(from_parts(packed.narrow(1, axis * parts, parts)).unsqueeze(1));
  centroids = at::cat(axes, 1);
  log_sizes = packed.select(1, 3 * parts);
  const at::Tensor starts = packed.select(1, 3 * parts + 1).detach();
  const at::Tensor begins = starts.masked_select(starts > 0).to(at::kCPU, at::kDouble);
  for (std::int64_t s = 0; s < begins.size(0); ++s)
    there.push_back(begins.data_ptr<double>()[s] < kFiller);
  const std::int64_t rest = 3 * parts + 2;
  hidden = packed.narrow(1, rest, packed.size(1) - rest);
}

at::Tensor Places::bounds() const { return bounds_of(sequences.bounds, centroids.device()); }

at::Tensor hidden_chunks(const Forest& forest, const at::Tensor& ids, const at::Tensor& bounds) {
  const at::Tensor chunk = chunk_of_rows(forest.boundary).index_select(0, forest.root);
  const std::int64_t chunks = chunk_rows(forest.boundary).size(0);
  const at::Tensor lengths = bounds.diff().to(at::kLong);
  const at::Tensor mask = at::arange(lengths.size(0), lengths.options()).remainder(model::kMasks);
  const at::Tensor cell =
      chunk.index_select(0, ids) * model::kMasks + mask.repeat_interleave(lengths).to(ids.device());
  const at::Tensor one = at::ones({1}, ids.options());
  const at::Tensor hidden = at::zeros({chunks * model::kMasks}, ids.options())
                                .index_add(0, cell, one.expand({cell.size(0)}))
                                .view({chunks, model::kMasks});
  const at::Tensor sizes =
      at::zeros({chunks}, ids.options()).index_add(0, chunk, one.expand({chunk.size(0)}));
  return (2 * hidden).ge(sizes.unsqueeze(1));
}

namespace {

// Teacher's chunks that masks hide, sample by sample and mask by mask.
std::pair<at::Tensor, at::Tensor> targets_of(const Places& teacher) {
  std::vector<at::Tensor> rows;
  std::vector<std::int64_t> bounds = {0};
  const std::vector<std::int64_t>& clips = teacher.sequences.bounds;
  for (std::size_t s = 0; s + 1 < clips.size(); ++s)
    for (std::int64_t mask = 0; mask < model::kMasks; ++mask) {
      const at::Tensor hidden =
          teacher.hidden.select(1, mask).narrow(0, clips[s], clips[s + 1] - clips[s]) > 0;
      rows.push_back(hidden.nonzero().flatten() + clips[s]);
      bounds.push_back(bounds.back() + rows.back().size(0));
    }
  return {at::cat(rows), bounds_of(bounds, teacher.centroids.device())};
}

Packing chunk_packing(const Places& student, const Places& teacher,
                      const std::pair<at::Tensor, at::Tensor>& targets) {
  return {student.centroids, student.bounds(), teacher.centroids.index_select(0, targets.first),
          targets.second};
}

}  // namespace

ChunkPacking::ChunkPacking(const Places& student, const Places& teacher)
    : ChunkPacking(student, teacher, targets_of(teacher)) {}

ChunkPacking::ChunkPacking(const Places& student, const Places& teacher,
                           const std::pair<at::Tensor, at::Tensor>& targets)
    : rows(targets.first), packing(chunk_packing(student, teacher, targets)) {}

Blocks hvjepa_blocks(const config::Job& job, const model::ModelSpec&, const Ranks& ranks) {
  const config::Vision& vision = job.vision;
  const std::int64_t samples = job.run.micro_batch;
  // The layers that make chunks, and the predictor, are whole on every tp rank.
  const Ranks alone = Across::without_tp(ranks);
  const EncoderBlock::Look student = chunk_look(job), teacher = chunk_look(job),
                           predicted = predictor_look(job);
  Blocks blocks;
  const auto add = [&](auto make) {
    blocks.push_back(make(ChunkBlock::Role::kStudent));
    blocks.push_back(make(ChunkBlock::Role::kTeacher));
  };
  using Role = ChunkBlock::Role;
  add([&](Role) {
    return std::make_unique<VideoEmbed>(vision, VideoEmbed::Frames::kTogether, alone);
  });
  for (std::int64_t layer = 0; layer < job.chunk.layers; ++layer)
    add([&](Role) { return std::make_unique<NeighboursBlock>(job, alone); });
  add([&](Role role) { return std::make_unique<ChunkBlock>(job, role, alone); });
  for (std::int64_t layer = 0; layer < vision.layers; ++layer)
    add([&](Role role) {
      const model::Encoder encoder = role == Role::kStudent ? model::student_encoder(job, samples)
                                                            : model::teacher_encoder(job, samples);
      return std::make_unique<EncoderBlock>(encoder, vision.norm_eps,
                                            role == Role::kStudent ? student : teacher, ranks);
    });
  add([&](Role) {
    return std::make_unique<VideoNorm>(vision.norm_eps, VideoNorm::Gives::kFeatures, ranks);
  });
  if (job.vicreg.weight > 0) blocks.push_back(std::make_unique<VicregLoss>(job, ranks));
  blocks.push_back(std::make_unique<PredictorEmbed>(pack_of_places(job), alone));
  for (std::int64_t layer = 0; layer < job.jepa.layers; ++layer)
    blocks.push_back(std::make_unique<EncoderBlock>(model::predictor_encoder(job, samples),
                                                    vision.norm_eps, predicted, alone));
  blocks.push_back(std::make_unique<HvjepaLoss>(job, alone));
  return blocks;
}

}  // namespace trireme::blocks
