#include "trireme/train/watch/seen_peaks.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme::train {
namespace {

std::map<std::string, double, std::less<>> peaks_in(const Path& file) {
  std::map<std::string, double, std::less<>> peaks;
  std::error_code ignored;
  if (file.empty() || !std::filesystem::is_regular_file(file, ignored)) return peaks;
  const Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) return peaks;
  for (const auto& [type, flops] : json.items())
    if (flops.is_number() && std::isfinite(flops.get<double>())) peaks[type] = flops.get<double>();
  return peaks;
}

}  // namespace

SeenPeaks::SeenPeaks(Path file) : file_(std::move(file)), peaks_(peaks_in(file_)) {}

double SeenPeaks::of(DType type) const {
  const auto found = peaks_.find(name(type));
  return found == peaks_.end() ? 0 : found->second;
}

void SeenPeaks::raise(DType type, double flops) {
  double& peak = peaks_[std::string(name(type))];
  if (flops <= peak) return;
  peak = flops;
  if (file_.empty()) return;
  for (const auto& [other, rate] : peaks_in(file_))  // another run may have raised it meanwhile
    peaks_[other] = std::max(peaks_[other], rate);
  try {
    replace_file(file_, Json(peaks_).dump() + "\n");
  } catch (const Error&) {
    return;  // no reason to end a run
  }
}

}  // namespace trireme::train
