#include "trireme/config/data_sets.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::config {
namespace {

double weight_of(const std::string& weights, std::string_view piece) {
  constexpr double kMost = 1e9;
  double weight = 0;
  const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), weight);
  if (error != std::errc() || end != piece.data() + piece.size() || !(weight > 0) || weight > kMost)
    fail(ErrorKind::kUsage,
         "data.weights={}: \"{}\" is not a number above 0 and up to {}. Give one such number for "
         "each path, as in data.weights=0.9,0.1.",
         weights, piece, kMost);
  return weight;
}

}  // namespace

std::vector<DataSet> data_sets(const Data& data) {
  if (data.weights.empty()) return {{.path = data.path}};
  const std::vector<std::string_view> paths = split_list(data.path),
                                      weights = split_list(data.weights);
  if (paths.size() != weights.size())
    fail(ErrorKind::kUsage,
         "data.weights={} has {} weights, data.path={} has {} paths. Give one weight for each "
         "path, with commas between them.",
         data.weights, weights.size(), data.path, paths.size());
  std::vector<DataSet> sets;
  double sum = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].empty())
      fail(ErrorKind::kUsage, "data.path={}: path {} of {} is empty. Name a data set there.",
           data.path, i + 1, paths.size());
    sets.push_back({.path = std::string(paths[i]), .share = weight_of(data.weights, weights[i])});
    sum += sets.back().share;
  }
  for (DataSet& set : sets) set.share /= sum;
  return sets;
}

}  // namespace trireme::config
