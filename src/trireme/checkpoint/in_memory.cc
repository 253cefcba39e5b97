#include "trireme/checkpoint/in_memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/json.h"
#include "trireme/base/os/durable.h"
#include "trireme/checkpoint/on_rank_zero.h"

namespace trireme::checkpoint {
namespace {

std::string text_of(const Path& file, os::FileSystem& files) {
  const std::unique_ptr<os::Contents> contents = files.read(file);
  const auto bytes = contents->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest_of(const std::string& manifest) { return hex64(hash64(manifest)); }

}  // namespace

InMemory::InMemory(Path root, std::int64_t distance, comm::World& world, os::FileSystem& files)
    : root_(std::move(root)), world_(world), files_(files), parcels_(world) {
  std::map<std::string, std::size_t> hosts;
  const std::vector<std::string> roots = world_.exchange(root_.string());
  for (std::size_t rank = 0; rank < roots.size(); ++rank) {
    if (roots[rank].empty())
      fail(ErrorKind::kUsage,
           "checkpoint.memory_every: rank {} has no memory that outlives it; start all ranks by "
           "trireme launch",
           rank);
    const std::size_t host = hosts.try_emplace(roots[rank], hosts.size()).first->second;
    host_of_.push_back(host);
    ranks_.resize(hosts.size());
    ranks_[host].push_back(static_cast<int>(rank));
  }
  if (ranks_.size() == 1) return;
  distance_ = static_cast<std::size_t>(distance) % ranks_.size();
  if (distance_ == 0) distance_ = 1;
}

Saver::Setup InMemory::setup() const {
  Saver::Setup setup{.root = root_,
                     .keep = {.last = 2},
                     .files = &files_,
                     .hosts = {host_of_.begin(), host_of_.end()},
                     .what = "snapshot in memory"};
  if (distance_ == 0) return setup;
  setup.replicas.resize(host_of_.size());
  for (std::size_t host = 0; host < ranks_.size(); ++host) {
    const std::vector<int>& others = ranks_[(host + distance_) % ranks_.size()];
    for (std::size_t place = 0; place < ranks_[host].size(); ++place)
      setup.replicas[ranks_[host][place]] = others[place % others.size()];
  }
  return setup;
}

Path InMemory::directory(std::int64_t step) const { return root_ / fmt::format("step-{}", step); }

InMemory::Found InMemory::find(std::int64_t after, const exec::Units& units,
                               const std::vector<model::UnitSpec>& specs) {
  Found found;
  std::vector<Candidate> all;
  try {
    all = candidates(after);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;  // of this rank alone
    found.refused.push_back(error.what());
  }
  for (const Candidate& candidate : all) {
    const std::string problem = gather(candidate, units, specs);
    if (problem.empty()) {
      found.directory = directory(candidate.step);
      found.step = candidate.step;
      break;
    }
    found.refused.push_back(fmt::format("step {}: {}", candidate.step, problem));
  }
  return found;
}

// Newest first.
std::vector<InMemory::Candidate> InMemory::candidates(std::int64_t after) {
  const std::vector<std::string> texts = on_every_rank(world_, [&] {
    Json here = Json::array();
    if (!leads() || files_.status(root_).kind == os::Kind::kAbsent) return here.dump();
    for (const auto& entry :
         formats::list_checkpoints(root_, formats::CheckpointCheck::kManifest, files_))
      if (entry.problem.empty() && entry.step > after)
        here.push_back(
            {entry.step, digest_of(text_of(entry.path / formats::kManifestName, files_))});
    return here.dump();
  });
  std::map<std::pair<std::int64_t, std::string>, std::vector<int>> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    for (const Json& one : parse_json(texts[rank], "snapshots in memory"))
      all[{one.at(0).get<std::int64_t>(), one.at(1).get<std::string>()}].push_back(
          static_cast<int>(rank));
  std::vector<Candidate> candidates;
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    candidates.push_back(
        {.step = one->first.first, .digest = one->first.second, .ranks = one->second});
  return candidates;
}

// Why it cannot be; empty: it is there.
std::string InMemory::gather(const Candidate& candidate, const exec::Units& units,
                             const std::vector<model::UnitSpec>& specs) try {
  const std::string text = on_every_rank(world_, [&] {
    if (world_.rank() != candidate.ranks.front()) return std::string();
    return text_of(directory(candidate.step) / formats::kManifestName, files_);
  })[candidate.ranks.front()];
  const formats::Manifest manifest =
      formats::parse_manifest(text, fmt::format("snapshot of step {}", candidate.step));
  const Inventory stock = take_stock(candidate, manifest, units, specs);
  const std::vector<Parcel> parcels = missing(stock, manifest);
  std::set<std::string> nowhere;
  for (const Parcel& parcel : parcels)
    if (parcel.from < 0) nowhere.insert(parcel.file.name);
  if (!nowhere.empty())
    return fmt::format("{} {} on no host that is here{}{}", fmt::join(nowhere, ", "),
                       nowhere.size() == 1 ? "is" : "are", stock.damage.empty() ? "" : "; ",
                       fmt::join(stock.damage, "; "));
  fetch(candidate, text, parcels);
  return {};
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kData) throw;  // of this rank alone
  return error.what();
}

// Each rank of a host looks at some of its files, whole.
InMemory::Inventory InMemory::take_stock(const Candidate& candidate,
                                         const formats::Manifest& manifest,
                                         const exec::Units& units,
                                         const std::vector<model::UnitSpec>& specs) {
  const std::vector<int>& mates = ranks_[host()];
  const bool here = std::ranges::find(candidate.ranks, mates.front()) != candidate.ranks.end();
  const auto place =
      static_cast<std::size_t>(std::ranges::find(mates, world_.rank()) - mates.begin());
  const std::vector<std::string> texts = on_every_rank(world_, [&] {
    Json json{{"have", Json::array()}, {"damage", Json::array()}, {"need", Json::array()}};
    for (const std::string& name : needed_files(manifest, units, specs))
      json["need"].push_back(name);
    for (std::size_t i = place; here && i < manifest.files.size(); i += mates.size()) {
      const std::string& name = manifest.files[i].name;
      const Path path = directory(candidate.step);
      if (files_.status(path / name).kind == os::Kind::kAbsent) continue;
      try {
        formats::open_checkpoint(path, files_, std::set{name});
        json["have"].push_back(name);
      } catch (const Error& error) {
        json["damage"].push_back(error.what());
      }
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  });
  Inventory stock{.have = std::vector<std::set<std::string>>(ranks_.size()),
                  .need = std::vector<std::set<std::string>>(ranks_.size())};
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Json json = parse_json(texts[rank], "snapshot in memory");
    for (const Json& name : json.at("have"))
      stock.have[host_of_[rank]].insert(name.get<std::string>());
    for (const Json& name : json.at("need"))
      stock.need[host_of_[rank]].insert(name.get<std::string>());
    for (const Json& damage : json.at("damage")) stock.damage.push_back(damage.get<std::string>());
  }
  return stock;
}

// Missing snapshots of each host, from the first host that has them; -1 if none does.
std::vector<Parcel> InMemory::missing(const Inventory& stock,
                                      const formats::Manifest& manifest) const {
  std::vector<Parcel> parcels;
  for (std::size_t host = 0; host < ranks_.size(); ++host)
    for (const formats::ManifestFile& file : manifest.files) {
      if (!stock.need[host].contains(file.name) || stock.have[host].contains(file.name)) continue;
      const auto source = std::ranges::find_if(
          stock.have, [&](const std::set<std::string>& have) { return have.contains(file.name); });
      const int from =
          source == stock.have.end() ? -1 : ranks_[source - stock.have.begin()].front();
      parcels.push_back({.from = from, .to = ranks_[host].front(), .file = file});
    }
  return parcels;
}

// The manifest comes last: without it what has come is nothing yet.
void InMemory::fetch(const Candidate& candidate, const std::string& manifest,
                     const std::vector<Parcel>& parcels) {
  parcels_.open(parcels);
  const bool here = std::ranges::find(candidate.ranks, world_.rank()) != candidate.ranks.end();
  const Path path = directory(candidate.step);
  // A rank that cannot take its files reports it to all before any transfer.
  on_every_rank(world_, [&] {
    if (!leads() || here) return std::string();
    os::remove_tree(files_, path);
    os::make_directory(files_, path);
    return std::string();
  });
  on_every_rank(world_, [&] {
    parcels_.move(parcels, path, files_);
    if (leads() && !here) os::write_new_file(files_, path / formats::kManifestName, manifest);
    return std::string();
  });
}

void InMemory::keep_only(std::int64_t step) {
  on_every_rank(world_, [&] {
    if (!leads() || files_.status(root_).kind == os::Kind::kAbsent) return std::string();
    for (const std::string& name : os::list(files_, root_))
      if (name.starts_with("step-") && formats::step_of(name) != step)
        os::remove_tree(files_, root_ / name);
    return std::string();
  });
}

}  // namespace trireme::checkpoint
