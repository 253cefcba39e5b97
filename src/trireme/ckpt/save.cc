#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/formats/safetensors.h"

namespace trireme::ckpt {
namespace {

// What one rank tells rank 0 about the file it wrote, or why it could not.
struct Share {
  std::string error;
  int tp_rank = 0;
  formats::ManifestFile file;
  std::vector<std::pair<int, formats::ManifestSlice>> slices;  // by unit
};

std::string encode(const Share& share) {
  Json json;
  json["error"] = share.error;
  json["tp_rank"] = share.tp_rank;
  json["file"] = {
      {"name", share.file.name}, {"size", share.file.size}, {"hash", hex64(share.file.hash)}};
  json["slices"] = Json::array();
  for (const auto& [unit, slice] : share.slices)
    json["slices"].push_back(
        {unit, slice.tensor, slice.kind, slice.offset, slice.length, slice.block});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Share decode(const std::string& text) {
  const Json json = parse_json(text, "checkpoint exchange");
  Share share;
  share.error = json.at("error").get<std::string>();
  share.tp_rank = json.at("tp_rank").get<int>();
  share.file.name = json.at("file").at("name").get<std::string>();
  share.file.size = json.at("file").at("size").get<std::int64_t>();
  share.file.hash = std::stoull(json.at("file").at("hash").get<std::string>(), nullptr, 16);
  for (const Json& slice : json.at("slices"))
    share.slices.emplace_back(slice.at(0).get<int>(),
                              formats::ManifestSlice{.file = share.file.name,
                                                     .tensor = slice.at(1).get<std::string>(),
                                                     .kind = slice.at(2).get<std::string>(),
                                                     .offset = slice.at(3).get<std::int64_t>(),
                                                     .length = slice.at(4).get<std::int64_t>(),
                                                     .block = slice.at(5).get<std::int64_t>()});
  return share;
}

Share write_share(const Path& directory, int rank, const exec::Units& units,
                  const std::vector<arch::UnitSpec>& specs, bool trainable_only) {
  Share share;
  share.tp_rank = units.tp_rank();
  share.file.name = fmt::format("rank-{:05}.safetensors", rank);
  std::vector<exec::StateSlice> slices = units.owned_slices();
  if (trainable_only)
    std::erase_if(slices, [&](const exec::StateSlice& slice) { return !units.trains(slice.unit); });
  std::vector<formats::TensorInfo> tensors;
  for (const exec::StateSlice& slice : slices) {
    const std::string name =
        fmt::format("{}.{}", specs[static_cast<std::size_t>(slice.unit)].name, slice.kind);
    tensors.push_back({.name = name, .dtype = slice.type, .shape = {slice.count}});
    share.slices.emplace_back(slice.unit, formats::ManifestSlice{.file = share.file.name,
                                                                 .tensor = name,
                                                                 .kind = slice.kind,
                                                                 .offset = slice.offset,
                                                                 .length = slice.count,
                                                                 .block = slice.block});
  }
  at::Tensor value;  // the one being written, in host memory
  const formats::FileDigest digest = formats::stream_safetensors(
      directory / share.file.name, tensors, {{"format", "pt"}}, formats::TensorOrder::kOfficial,
      [&](std::size_t index) {
        value = at::Tensor();
        value = units.read(slices[index]).cpu();
        return std::span(static_cast<const std::byte*>(value.data_ptr()), value.nbytes());
      });
  share.file.size = digest.size;
  share.file.hash = digest.hash;
  return share;
}

formats::ManifestUnit make_unit(const arch::UnitSpec& spec, int tp_rank, int tp) {
  formats::ManifestUnit unit{.name = spec.name, .tp_rank = tp_rank, .tp = tp};
  for (std::size_t i = 0; i < spec.params.size(); ++i) {
    const arch::LocalParam local = arch::local_param(spec.params[i], tp_rank, tp);
    unit.parameters.push_back(
        {.name = spec.params[i].name, .shape = local.shape, .offset = unit.numel});
    unit.numel += local.numel();
  }
  return unit;
}

formats::Manifest make_manifest(const Header& header, int world, const exec::Units& units,
                                const std::vector<Share>& shares,
                                const std::vector<arch::UnitSpec>& specs) {
  const int tp = units.tp();
  formats::Manifest manifest{.step = header.step,
                             .world = world,
                             .consumed_samples = header.consumed_samples,
                             .dataset_digest = header.dataset_digest,
                             .job = header.job,
                             .train_state = header.train_state,
                             .build = header.build,
                             .base = header.base};
  std::vector<std::size_t> places;  // of each unit's first part
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit) {
    places.push_back(manifest.units.size());
    if (!header.base.empty() && !units.trains(unit)) continue;
    for (int part = 0; part < tp; ++part)
      manifest.units.push_back(make_unit(specs[static_cast<std::size_t>(unit)], part, tp));
  }
  for (const Share& share : shares) {
    if (share.slices.empty()) continue;  // a replica that owns nothing writes an empty file
    manifest.files.push_back(share.file);
    for (const auto& [unit, slice] : share.slices)
      manifest
          .units[places[static_cast<std::size_t>(unit)] + static_cast<std::size_t>(share.tp_rank)]
          .slices.push_back(slice);
  }
  for (formats::ManifestUnit& unit : manifest.units)
    std::stable_sort(unit.slices.begin(), unit.slices.end(), [](const auto& a, const auto& b) {
      return std::tie(a.kind, a.offset) < std::tie(b.kind, b.offset);
    });
  return manifest;
}

// A directory of checkpoints that vanished is not made again: on a disk that is no longer mounted it would fill
// another.
void make_anew(const Path& root, const Path& directory) {
  if (!std::filesystem::is_directory(root))
    fail(ErrorKind::kData, "{}: is no longer there", root.string());
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
}

void commit(const Path& root, const Path& temporary, const Path& final) {
  fsync_directory(temporary);
  Path old = final;
  old += ".old";
  std::filesystem::remove_all(old);
  if (std::filesystem::exists(final)) std::filesystem::rename(final, old);
  std::filesystem::rename(temporary, final);
  fsync_directory(root);
  std::filesystem::remove_all(old);
}

// Takes away what was not committed: a full disk needs the space. No rank writes there any more, since all of them
// learn together that one could not.
class Unfinished {
 public:
  explicit Unfinished(Path directory) : directory_(std::move(directory)) {}
  ~Unfinished() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  Path directory_;
};

// Runs `body` and tells all ranks how it went: the same error everywhere, or none.
template <typename Body>
std::vector<Share> together(comm::World& world, int step, const Body& body) {
  Share mine;
  try {
    mine = body();
  } catch (const std::exception& e) {
    mine.error = e.what();
  }
  std::vector<Share> shares;
  for (const std::string& text : world.exchange(encode(mine))) shares.push_back(decode(text));
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    if (!shares[rank].error.empty())
      fail(ErrorKind::kData,
           "checkpoint of step {} not written, those before it are untouched: rank {}: {}; mend "
           "that "
           "and resume",
           step, rank, shares[rank].error);
  return shares;
}

}  // namespace

Path save(const Path& root, const Header& header, const exec::Units& units,
          const std::vector<arch::UnitSpec>& specs, comm::World& world) {
  const Path final = root / fmt::format("step-{}", header.step);
  Path temporary = final;
  temporary += ".tmp";
  const int step = static_cast<int>(header.step);
  const Unfinished unfinished(world.rank() == 0 ? temporary : Path());
  together(world, step, [&] {
    if (world.rank() == 0) make_anew(root, temporary);
    return Share{};
  });
  const std::vector<Share> shares = together(world, step, [&] {
    Share share = write_share(temporary, world.rank(), units, specs, !header.base.empty());
    if (share.slices.empty()) std::filesystem::remove(temporary / share.file.name);
    return share;
  });
  together(world, step, [&] {
    if (world.rank() == 0) {
      const formats::Manifest manifest = make_manifest(header, world.size(), units, shares, specs);
      write_file_synced(temporary / formats::kManifestName, formats::print(manifest));
      commit(root, temporary, final);
    }
    return Share{};
  });
  return final;
}

void prune(const Path& root, std::int64_t keep) {
  if (keep <= 0) return;
  std::int64_t usable = 0;
  for (const formats::CheckpointEntry& entry : formats::list_checkpoints(root)) {
    if (entry.problem.empty() && ++usable > keep) std::filesystem::remove_all(entry.path);
  }
}

}  // namespace trireme::ckpt
