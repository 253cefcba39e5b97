// A checkpoint of a few hundred bytes, written as a run writes one, and known by heart.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::harness {

struct SmallCheckpoint {
  int ranks = 2;
  std::int64_t elements = 100;  // of each rank, of each kind
  std::optional<double> eval_loss{};

  static std::vector<float> values(std::int64_t step, int rank, int kind, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          static_cast<float>(step * 1000 + rank * 100 + kind * 10) + static_cast<float>(i) / 128;
    return values;
  }

  void save(os::FileSystem& files, const Path& root, std::int64_t step) const {
    formats::CheckpointDraft draft(files, root, step);
    draft.commit(write(draft, files, root, step));
  }

  // All that is written before the commit.
  formats::Manifest write(const formats::CheckpointDraft& draft, os::FileSystem& files,
                          const Path& root, std::int64_t step) const {
    constexpr const char* kKinds[] = {"param", "exp_avg"};
    formats::Manifest manifest{.step = step,
                               .world = ranks,
                               .layout = {{"dp_shard", ranks}},
                               .consumed_samples = 8 * step,
                               .eval_loss = eval_loss,
                               .units = {{.name = "u", .numel = ranks * elements}}};
    manifest.units[0].parameters = {{.name = "w", .shape = {ranks * elements}, .offset = 0}};
    for (int rank = 0; rank < ranks; ++rank) {
      manifest.files.push_back({.name = "rank-" + std::to_string(rank) + ".safetensors"});
      for (const char* kind : kKinds)
        manifest.units[0].slices.push_back({manifest.files.back().name, std::string("u.") + kind,
                                            kind, rank * elements, elements});
    }
    draft.announce(manifest);
    const Path directory = formats::CheckpointDraft::directory(root, step);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<formats::TensorInfo> tensors;
      for (const char* kind : kKinds)
        tensors.push_back({.name = std::string("u.") + kind, .shape = {elements}});
      std::vector<float> now;
      formats::ManifestFile& file = manifest.files[rank];
      file =
          formats::write_shard(files, directory, file.name, step, tensors, [&](std::size_t kind) {
            now = values(step, rank, static_cast<int>(kind), elements);
            return std::as_bytes(std::span(now));
          });
      formats::write_digest(files, directory, file);
    }
    return manifest;
  }

  // Whether every value is what save() wrote; throws where it is refused.
  bool intact(os::FileSystem& files, const Path& directory) const {
    const formats::OpenCheckpoint open = formats::open_checkpoint(directory, files);
    const std::int64_t step = open.manifest.step;
    for (const formats::ManifestSlice& slice : open.manifest.units.at(0).slices) {
      const auto bytes = open.files.at(slice.file).find(slice.tensor)->bytes;
      const std::vector<float> wanted = values(step, static_cast<int>(slice.offset / elements),
                                               slice.kind == "param" ? 0 : 1, elements);
      if (bytes.size() != 4 * wanted.size() ||
          std::memcmp(bytes.data(), wanted.data(), bytes.size()) != 0)
        return false;
    }
    return true;
  }
};

}  // namespace trireme::harness
