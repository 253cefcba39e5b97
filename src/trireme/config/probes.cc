#include "trireme/config/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::config {

std::vector<double> probe_rates(const Job& job) {
  constexpr double kMost = 1e6;
  std::vector<double> rates;
  if (job.probe.lr.empty()) return rates;
  for (const std::string_view piece : split_list(job.probe.lr)) {
    double rate = 0;
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), rate);
    if (error != std::errc() || end != piece.data() + piece.size() || !(rate > 0) || rate > kMost)
      fail(ErrorKind::kUsage, "probe.lr={}: \"{}\" is no number above 0 and up to {}", job.probe.lr,
           piece, kMost);
    if (std::ranges::find(rates, rate) != rates.end())
      fail(ErrorKind::kUsage, "probe.lr={}: two probes with {} would be told apart by chance only",
           job.probe.lr, rate);
    rates.push_back(rate);
  }
  return rates;
}

std::vector<std::string> probe_metrics(const Job& job) {
  std::vector<std::string> names;
  for (const double rate : probe_rates(job))
    names.push_back(fmt::format("accuracy_lr{:g}", rate * job.optim.lr));
  if (names.empty()) names.emplace_back("accuracy");
  return names;
}

void check_probes(const Job& job) {
  const std::vector<std::string> names = probe_metrics(job);
  if (const auto same = std::ranges::find_if(
          names, [&](const std::string& name) { return std::ranges::count(names, name) > 1; });
      same != names.end())
    fail(ErrorKind::kUsage, "probe.lr={}: two probes would both report {}; set rates further apart",
         job.probe.lr, *same);
  if (const std::size_t count = probe_rates(job).size(); count > 1 && job.optim.clip != 0)
    fail(ErrorKind::kUsage,
         "optim.clip={}: {} probes (probe.lr={}) would be clipped by the gradient of all; set "
         "optim.clip=0",
         job.optim.clip, count, job.probe.lr);
}

}  // namespace trireme::config
