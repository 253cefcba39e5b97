#include "trireme/families/probe/keys_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/families.h"

namespace trireme::config {
namespace {

// Numbers of the list that `key` has, from 0 only if `zero`.
std::vector<double> factors_of(const char* key, const std::string& list, bool zero) {
  constexpr double kMost = 1e6;
  std::vector<double> factors;
  if (list.empty()) return factors;
  for (const std::string_view piece : split_list(list)) {
    double factor = 0;
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), factor);
    if (error != std::errc() || end != piece.data() + piece.size() || !(factor >= 0) ||
        (factor == 0 && !zero) || factor > kMost)
      fail(ErrorKind::kUsage, "{}={}: \"{}\" is not a number {} 0 and up to {}", key, list, piece,
           zero ? "from" : "above", kMost);
    if (std::ranges::find(factors, factor) != factors.end())
      fail(ErrorKind::kUsage, "{}={}: two probes with {} differ only by chance; remove one", key,
           list, factor);
    factors.push_back(factor);
  }
  return factors;
}

std::vector<double> or_one(std::vector<double> factors) {
  return factors.empty() ? std::vector{1.0} : factors;
}

}  // namespace

std::vector<ProbeFactors> probe_factors(const Job& job) {
  const Probe& probe = job.probe;
  if (probe.lr.empty() && probe.weight_decay.empty()) return {};
  std::vector<ProbeFactors> all;
  for (const double lr : or_one(factors_of("probe.lr", probe.lr, false)))
    for (const double decay : or_one(factors_of("probe.weight_decay", probe.weight_decay, true)))
      all.push_back({.lr = lr, .weight_decay = decay});
  return all;
}

std::vector<std::string> probe_metrics(const Job& job) {
  std::vector<std::string> names;
  for (const ProbeFactors& factors : probe_factors(job)) {
    names.push_back(fmt::format("accuracy_lr{:g}", factors.lr * job.optim.lr));
    if (!job.probe.weight_decay.empty())
      names.back() += fmt::format("_wd{:g}", factors.weight_decay * job.optim.weight_decay);
  }
  if (names.empty()) names.emplace_back("accuracy");
  return names;
}

std::string probe_protocol(const Job& job) {
  return fmt::format("{}x{}x{}", job.vision.frames, job.probe.segments, job.probe.views);
}

std::vector<std::string> held_out_metrics(const Job& job, std::vector<std::string> metrics) {
  if (!uses(job.model.family, "probe.clips")) return metrics;
  constexpr std::string_view kAccuracy = "accuracy";
  for (std::string& metric : metrics) metric.insert(kAccuracy.size(), "_" + probe_protocol(job));
  return metrics;
}

void check_probe_names(const Job& job) {
  const std::vector<std::string> names = probe_metrics(job);
  if (const auto same = std::ranges::find_if(
          names, [&](const std::string& name) { return std::ranges::count(names, name) > 1; });
      same != names.end())
    fail(ErrorKind::kUsage,
         "probe.lr={}, probe.weight_decay={}: two probes would both report {}; set factors further "
         "apart",
         job.probe.lr, job.probe.weight_decay, *same);
}

}  // namespace trireme::config
