#include "trireme/train/recording/compare_replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "trireme/base/hash.h"

namespace trireme::train {
namespace {

// "block0 exp_avg" and which elements of whose part.
std::string label(const exec::Units& units, const std::vector<model::UnitSpec>& specs,
                  const exec::StateSlice& slice) {
  return fmt::format("{} {}\t{}/{} {}+{}", specs[slice.unit].name, slice.kind, units.tp_rank(),
                     units.tp(), slice.offset, slice.count);
}

std::string digest(const at::Tensor& values) {
  const at::Tensor here = values.cpu();
  return hex64(hash64(std::span(static_cast<const std::byte*>(here.data_ptr()), here.nbytes())));
}

// Labels and digests hold no newlines.
std::string print(const Digests& digests) {
  std::string text;
  for (const auto& [what, hash] : digests) text += what + "\n" + hash + "\n";
  return text;
}

Digests parse(const std::string& text) {
  Digests digests;
  std::istringstream lines(text);
  for (std::string what, hash; std::getline(lines, what) && std::getline(lines, hash);)
    digests.emplace_back(what, hash);
  return digests;
}

std::vector<Digests> of_all(const Digests& mine, comm::World& world) {
  std::vector<Digests> all;
  for (const std::string& text : world.exchange(print(mine))) all.push_back(parse(text));
  return all;
}

}  // namespace

Apart judge_digests(const std::vector<Digests>& ranks) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, std::vector<int>>> sides;  // by label, by digest
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto& [what, hash] : ranks[rank]) {
      if (!sides.contains(what)) order.push_back(what);
      sides[what][hash].push_back(static_cast<int>(rank));
    }
  for (const std::string& what : order) {
    const auto& by_hash = sides[what];
    if (by_hash.size() == 1) continue;
    const auto larger = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto most = std::ranges::max_element(by_hash, larger);
    const auto equals = std::ranges::count_if(
        by_hash, [&](const auto& side) { return side.second.size() == most->second.size(); });
    Apart apart{.outvoted = equals == 1, .what = what.substr(0, what.find('\t'))};
    for (const auto& [hash, members] : by_hash) {
      apart.among += std::ssize(members);
      if (!apart.outvoted || hash != most->first)
        apart.ranks.insert(apart.ranks.end(), members.begin(), members.end());
    }
    std::ranges::sort(apart.ranks);
    return apart;
  }
  return {};
}

std::string describe(const Apart& apart) {
  const std::string ranks =
      fmt::format("rank{} {}", apart.ranks.size() > 1 ? "s" : "", fmt::join(apart.ranks, ", "));
  if (!apart.outvoted)
    return fmt::format("{} should hold the same {} and do not; no value has a majority", ranks,
                       apart.what);
  return fmt::format("{} hold{} another {} than the {} ranks that should hold the same", ranks,
                     apart.ranks.size() > 1 ? "" : "s", apart.what,
                     apart.among - std::ssize(apart.ranks));
}

Apart compare_replicas(const exec::Units& units, const std::vector<model::UnitSpec>& specs,
                       comm::World& world) {
  Digests mine;
  for (const exec::StateSlice& slice : units.local_slices())
    mine.emplace_back(label(units, specs, slice), digest(units.read(slice)));
  return judge_digests(of_all(mine, world));
}

bool has_replicas(const exec::Units& units, const std::vector<model::UnitSpec>& specs,
                  comm::World& world) {
  Digests mine;
  for (const exec::StateSlice& slice : units.local_slices())
    mine.emplace_back(label(units, specs, slice), "");
  std::set<std::string> seen;
  for (const Digests& one : of_all(mine, world))
    for (const auto& [what, hash] : one)
      if (!seen.insert(what).second) return true;
  return false;
}

}  // namespace trireme::train
