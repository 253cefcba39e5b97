// Small models of families that convert under any layout, and a checkpoint to begin with.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/reshard.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::convert {

using Layout = std::vector<std::string>;

inline config::Job decoder(config::Family family, std::int64_t vocab) {
  config::Job job;
  job.model = {.family = family,
               .layers = 2,
               .hidden = vocab < 1024 ? 24 : 12,  // what is written is mostly vocabulary
               .heads = 6,
               .kv_heads = family == config::Family::kLlama ? 3 : 6,
               .ffn = 50,
               .vocab = vocab,
               .seq_len = 24,
               .tied = family == config::Family::kGpt,
               .norm_eps = 1e-6,
               .rope_theta = family == config::Family::kLlama ? 50000.0 : 10000.0};
  return job;
}

// Families of images and clips as published classes have them.
inline config::Job with_tower(config::Family family) {
  config::Job job;
  job.model.family = family;
  job.vision = {.image = 8,
                .patch = 2,
                .layers = 2,
                .hidden = 24,
                .heads = 4,
                .ffn = 50,
                .pooling = config::Pooling::kClass,
                .norm_eps = 1e-4};
  switch (family) {
    case config::Family::kVit:
      job.data.source = config::DataSource::kStripes;
      job.vision.classes = 5;
      job.vision.pixels = "siglip";
      break;
    case config::Family::kClip:
      job.data.source = config::DataSource::kScenes;
      job.run.micro_batch = job.run.global_batch;
      job.vision.activation = config::Activation::kQuickGelu;
      job.vision.pre_norm = true;
      job.vision.pixels = "clip";
      job.contrastive.width = 10;
      job.model = {.family = family,
                   .layers = 1,
                   .hidden = 12,
                   .heads = 3,
                   .ffn = 20,
                   .vocab = 257,
                   .seq_len = 55,
                   .norm_eps = 1e-3};
      break;
    default:
      job.data.source = config::DataSource::kSquares;
      job.vision.frames = 4;
      job.vision.tubelet = 2;
      job.vision.positions = config::Positions::kRotaryCompat;
      job.vision.pooling = {};
      job.vision.pixels = "imagenet";
      if (family == config::Family::kProbe) {
        job.vision.classes = 9;
        job.probe = {.layers = 3, .heads = job.vision.heads};
      } else {
        job.jepa = {.layers = 2, .hidden = 12, .heads = 2};
      }
  }
  return job;
}

inline Target target_of(config::Job job, const Layout& layout) {
  job.run.global_batch = 8;
  job.parallel.dp_shard = 1;
  for (const std::string& set : layout) config::apply_set(job, set);
  const config::Parallel& p = job.parallel;
  Target to;
  to.job = config::resolve(job, p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp, {});
  to.model = model::describe(to.job);
  to.plan = plan::compile(to.model.program, model::mesh_of(to.job), model::recipe_of(to.job),
                          model::grid_of(to.job, to.model));
  return to;
}

inline Target target(config::Family family, std::int64_t vocab, const Layout& layout) {
  return target_of(config::info(family).chain ? decoder(family, vocab) : with_tower(family),
                   layout);
}

// What one rank would write, every element another.
inline void write_seed(const Target& one, const Path& root) {
  os::FileSystem& files = os::real_file_system();
  std::filesystem::create_directories(root);
  formats::CheckpointDraft draft(files, root, 3);
  formats::Manifest manifest{.step = 3,
                             .consumed_samples = 24,
                             .eval_loss = 2.5,
                             .job = config::print_yaml(one.job),
                             .train_state = R"({"updates":3})"};
  std::vector<formats::TensorInfo> tensors;
  const std::string file = "rank-00000.safetensors";
  for (const model::UnitSpec& spec : one.model.units) {
    manifest.units.push_back(manifest_unit(spec, 0, 1));
    for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
      tensors.push_back({.name = spec.name + "." + kind, .shape = {spec.numel()}});
      manifest.units.back().slices.push_back({file, tensors.back().name, kind, 0, spec.numel()});
    }
  }
  std::vector<float> values;
  manifest.files = {formats::write_shard(files, formats::CheckpointDraft::directory(root, 3), file,
                                         3, tensors, [&](std::size_t index) {
                                           std::mt19937 random(static_cast<std::uint32_t>(index));
                                           values.resize(
                                               static_cast<std::size_t>(tensors[index].shape[0]));
                                           for (float& value : values)
                                             value = static_cast<float>(random()) / 4096;
                                           return std::as_bytes(std::span(values));
                                         })};
  draft.commit(manifest);
}

}  // namespace trireme::convert
