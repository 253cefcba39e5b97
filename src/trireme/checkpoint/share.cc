#include "trireme/checkpoint/share.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/checkpoint/convert/described.h"

namespace trireme::checkpoint {
std::string encode(const Share& share) {
  Json json{{"error", share.error},        {"warning", share.warning}, {"tp_rank", share.tp_rank},
            {"file", share.file.name},     {"size", share.file.size},  {"hash", share.file.hash},
            {"blocks", share.file.blocks}, {"slices", Json::array()}};
  for (const auto& [unit, slice] : share.slices)
    json["slices"].push_back(
        {unit, slice.tensor, slice.kind, slice.offset, slice.length, slice.block});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Share decode(const std::string& text) {
  const Json json = parse_json(text, "checkpoint exchange");
  Share share{.error = json.at("error").get<std::string>(),
              .warning = json.at("warning").get<std::string>(),
              .tp_rank = json.at("tp_rank").get<int>(),
              .file = {.name = json.at("file").get<std::string>(),
                       .size = json.at("size").get<std::int64_t>(),
                       .hash = json.at("hash").get<std::uint64_t>(),
                       .blocks = json.at("blocks").get<std::vector<std::uint64_t>>()}};
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

Share make_share(int rank, const exec::Units& units, const std::vector<exec::StateSlice>& slices,
                 const std::vector<model::UnitSpec>& specs) {
  Share share{.tp_rank = units.tp_rank()};
  if (slices.empty()) return share;
  share.file.name = fmt::format("rank-{:05}.safetensors", rank);
  for (const exec::StateSlice& slice : slices) {
    std::string tensor = fmt::format("{}.{}", specs[slice.unit].name, slice.kind);
    // Columns of a residual follow each other.
    if (!share.slices.empty() && share.slices.back().first == slice.unit &&
        share.slices.back().second.kind == slice.kind)
      tensor += fmt::format(".{}", slice.offset);
    share.slices.emplace_back(slice.unit, formats::ManifestSlice{.file = share.file.name,
                                                                 .tensor = std::move(tensor),
                                                                 .kind = slice.kind,
                                                                 .offset = slice.offset,
                                                                 .length = slice.count,
                                                                 .block = slice.block});
  }
  return share;
}

formats::Manifest make_manifest(const Header& header, const exec::Units& units,
                                const std::vector<Share>& shares,
                                const std::vector<model::UnitSpec>& specs) {
  const int tp = units.tp();
  formats::Manifest manifest{.step = header.step,
                             .world = units.mesh().world(),
                             .layout = convert::manifest_layout(units.mesh()),
                             .consumed_samples = header.consumed_samples,
                             .dataset_digest = header.dataset_digest,
                             .vocabulary = header.vocabulary,
                             .eval_loss = header.eval_loss,
                             .job = header.job,
                             .train_state = header.train_state,
                             .build = header.build,
                             .base = header.base};
  std::vector<std::size_t> places;  // of each unit's first part
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit) {
    places.push_back(manifest.units.size());
    if (!header.base.empty() && !units.trains(unit)) continue;
    for (int part = 0; part < tp; ++part)
      manifest.units.push_back(convert::manifest_unit(specs[unit], part, tp));
  }
  for (const Share& share : shares) {
    if (share.file.name.empty()) continue;
    manifest.files.push_back(share.file);
    for (const auto& [unit, slice] : share.slices)
      manifest.units[places[unit] + static_cast<std::size_t>(share.tp_rank)].slices.push_back(
          slice);
  }
  for (formats::ManifestUnit& unit : manifest.units)
    std::stable_sort(unit.slices.begin(), unit.slices.end(), [](const auto& a, const auto& b) {
      return std::tie(a.kind, a.offset) < std::tie(b.kind, b.offset);
    });
  return manifest;
}

}  // namespace trireme::checkpoint
