#include "bench/scoreboard/fit.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/scoreboard/descent.h"
#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/tolerant.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/uncertainty.h"

namespace trireme::scoreboard {
namespace {

using RunsByTable = std::map<std::string, std::vector<Run>>;

const Cluster& cluster_of(const Run& run, const std::vector<Cluster>& clusters) {
  const auto cluster = std::ranges::find(clusters, run.cluster, &Cluster::name);
  TRIREME_CHECK(cluster != clusters.end(), "cluster {}", run.cluster);
  return *cluster;
}

// The setting that the run is taken to have had, and its estimated seconds.
std::pair<const Candidate*, double> fastest(const Run& run, const Cluster& cluster) {
  if (run.timed != Timed::kStep) {
    const auto [forward, backward] = run.candidates.front().block_seconds(cluster);
    return {&run.candidates.front(), run.timed == Timed::kForward ? forward : backward};
  }
  const Candidate* best = nullptr;
  double least = INFINITY;
  for (const Candidate& candidate : run.candidates)
    if (const double seconds = candidate.step_seconds(cluster); seconds < least) {
      best = &candidate;
      least = seconds;
    }
  TRIREME_CHECK(best != nullptr, "{} has no setting", run.row);
  return {best, least};
}

std::vector<Run> all_of(const RunsByTable& tables) {
  std::vector<Run> all;
  for (const auto& [name, runs] : tables) all.insert(all.end(), runs.begin(), runs.end());
  return all;
}

// What a table is held to, in percent; 4 of one that is held to nothing.
double bar_of(const std::string& name) {
  static const std::vector<Table> kTables = all_tables();
  for (const Table& table : kTables)
    if (table.name == name) {
      const Bar& bar = table.abilities.front().bar;
      return bar.mape.value_or(bar.largest.value_or(4));
    }
  return 4;
}

void set(const Constant& constant, std::vector<Cluster>& clusters, double value) {
  for (Cluster& cluster : clusters)
    if (double* at = constant.in(cluster)) *at = value;
}

// A constant of a kind of GPU.
struct EfficiencyField {
  const char* name;
  double Efficiency::*at;
  double low, high;
  double a100, h100;  // expected
  double spread;
};

// Expected: the largest products and copies that were measured (performance anchors: 271 and 794 TFLOP/s), attention of Dao
// 2023, all-reduces at four fifths of links; of others what is usual.
const EfficiencyField kEfficiencies[] = {
    {"gemm", &Efficiency::gemm, 0.3, 1, 0.87, 0.80, 0.1},
    {"crosswise", &Efficiency::crosswise, 0.3, 1, 0.9, 0.9, 0.15},
    {"depth", &Efficiency::depth, 8, 2000, 128, 128, 0.7},
    {"tile", &Efficiency::tile, 0.01, 0.5, 0.15, 0.15, 0.5},
    {"misaligned", &Efficiency::misaligned, 0.03, 1, 0.2, 0.2, 1},
    {"memory", &Efficiency::memory, 0.3, 1, 0.8, 0.8, 0.15},
    {"attention", &Efficiency::attention, 0.1, 1, 0.6, 0.4, 0.2},
    {"shared", &Efficiency::shared, 0.3, 1, 0.9, 0.9, 0.1},
    {"kernel_s", &Efficiency::kernel_s, 1e-6, 3e-5, 4e-6, 4e-6, 0.5},
    {"blocked_s", &Efficiency::blocked_s, 1e-6, 1e-3, 5e-5, 5e-5, 1}};

}  // namespace

std::vector<Constant> fitted_constants() {
  std::vector<Constant> constants;
  for (const std::string gpu : {"a100", "h100"}) {
    for (const EfficiencyField& field : kEfficiencies) {
      // No run on an H100 tells of either: they are the A100's there.
      const bool told = gpu == "a100" ||
                        (field.at != &Efficiency::misaligned && field.at != &Efficiency::blocked_s);
      if (!told) continue;
      constants.push_back({.name = fmt::format("{}: {}", gpu, field.name),
                           .in =
                               [gpu, at = field.at](Cluster& cluster) {
                                 return cluster.gpu.name.starts_with(gpu)
                                            ? &(cluster.gpu.efficiency.*at)
                                            : nullptr;
                               },
                           .low = field.low,
                           .high = field.high,
                           .expected = gpu == "a100" ? field.a100 : field.h100,
                           .spread = field.spread});
    }
    constants.push_back({.name = gpu + ": nvlink",
                         .in =
                             [gpu](Cluster& cluster) {
                               return cluster.gpu.name.starts_with(gpu)
                                          ? &cluster.tiers.front().efficiency
                                          : nullptr;
                             },
                         .low = 0.1,
                         .expected = 0.78,
                         .spread = 0.15});
  }
  const std::vector<std::vector<std::string>> fabrics = {{"selene", "megascale"},
                                                         {"jean-zay"},
                                                         {"mosaic-a100-80", "mosaic-a100-40"},
                                                         {"mosaic-h100"},
                                                         {"dgx-h100"}};
  for (const std::vector<std::string>& names : fabrics)
    constants.push_back({.name = names.front() + ": fabric",
                         .in =
                             [names](Cluster& cluster) {
                               return std::ranges::count(names, cluster.name) > 0
                                          ? &cluster.tiers.back().efficiency
                                          : nullptr;
                             },
                         .low = 0.05,
                         .expected = 0.8,
                         .spread = 0.3});
  return constants;
}

std::vector<Cluster> clusters_of(const std::vector<Run>& runs) {
  std::vector<Cluster> clusters;
  std::set<std::string> names;
  for (const Run& run : runs)
    if (names.insert(run.cluster).second) clusters.push_back(find_cluster(run.cluster));
  return clusters;
}

double estimated(const Run& run, const std::vector<Cluster>& clusters) {
  return run.scale * fastest(run, cluster_of(run, clusters)).second;
}

double simulated(const Run& run, const std::vector<Cluster>& clusters) {
  const Cluster& cluster = cluster_of(run, clusters);
  const auto [candidate, seconds] = fastest(run, cluster);
  return run.scale * (run.timed == Timed::kStep ? candidate->simulate(cluster).step_s : seconds);
}

Case step_time_case(const Run& run, const std::vector<Cluster>& clusters,
                    double (*forecast)(const Run&, const std::vector<Cluster>&)) {
  Case one{.row = run.row,
           .quantity = fmt::format("{}{}{}", run.timed == Timed::kStep ? "step time" : "layer time",
                                   run.apart.empty() ? "" : ", ", run.apart),
           .unit = "s",
           .group = run.group,
           .measured = run.seconds,
           .unscored = run.unscored,
           .lines = run.lines};
  if (!one.unscored.empty()) return one;
  one.forecast = forecast(run, clusters);
  const Band within = band(cluster_of(run, clusters).gpu, one.forecast);
  one.low = within.low;
  one.high = within.high;
  return one;
}

RunsByTable fitted_runs(const std::string& directory) {
  const std::vector<std::pair<std::string, std::vector<Run> (*)(const Csv&)>> readers = {
      {"korthikanti_table3_5_e2e", korthikanti_runs},
      {"korthikanti_table4_layer_times", korthikanti_layers},
      {"megatron_sc21_table1", sc21_runs},
      {"megatron_sc21_table2_zero3", sc21_zero3_runs},
      {"megascale", megascale_runs},
      {"bloom_topologies_a100", bloom_runs},
      {"mosaicml_fsdp_mpt", mosaicml_runs},
      {"megatron_core_h100", megatron_core_runs},
      {"torchtitan_llama", torchtitan_runs},
      {"fms_fsdp_llama2", fms_runs}};
  RunsByTable tables;
  for (const auto& [name, read] : readers) {
    const Path file = Path(directory) / (name + ".csv");
    if (!std::filesystem::exists(file)) continue;
    std::vector<Run> runs;
    const auto take = [&, read = read](const Csv& rows) { runs = read(rows); };
    take(sift(Csv::read(file.string()), take).rows);
    std::erase_if(runs, [](const Run& run) {
      return !run.unscored.empty() || !run.apart.empty() || run.held_out;
    });
    tables.emplace(name, std::move(runs));
  }
  return tables;
}

namespace {

double apart(const Run& run, const std::vector<Cluster>& clusters) {
  return std::log(estimated(run, clusters) / run.seconds);
}

// Of one run of a table, by what the table is held to. Runs of one table err alike: many say less than as many tables.
double weight_of(const std::string& name, std::size_t runs) {
  return 100 / bar_of(name) / std::sqrt(static_cast<double>(runs));
}

}  // namespace

double misfit(const RunsByTable& tables, const std::vector<Cluster>& clusters) {
  double sum = 0;
  for (const auto& [name, runs] : tables)
    for (const Run& run : runs) sum += weight_of(name, runs.size()) * loss(apart(run, clusters));
  return sum;
}

void fit(const RunsByTable& tables, const std::vector<Constant>& constants,
         std::vector<Cluster>& clusters, int trials) {
  std::vector<const Constant*> told;  // of which the clusters tell
  std::vector<Unknown> unknowns;
  for (const Constant& constant : constants)
    for (Cluster& cluster : clusters)
      if (const double* value = constant.in(cluster)) {
        told.push_back(&constant);
        unknowns.push_back({.at = std::log(std::clamp(*value, constant.low, constant.high)),
                            .low = std::log(constant.low),
                            .high = std::log(constant.high),
                            .expected = std::log(constant.expected),
                            .spread = constant.spread});
        break;
      }
  std::vector<const Run*> all;
  std::vector<double> weights;
  for (const auto& [name, runs] : tables)
    for (const Run& run : runs) {
      all.push_back(&run);
      weights.push_back(weight_of(name, runs.size()));
    }
  const auto place = [&](const std::vector<double>& at) {
    for (std::size_t i = 0; i < at.size(); ++i) set(*told[i], clusters, std::exp(at[i]));
  };
  std::vector<double> before;
  const Errors errors = [&](const std::vector<double>& at, std::optional<std::size_t> moved) {
    place(at);
    std::vector<double> now = before;
    now.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      Cluster& cluster = *std::ranges::find(clusters, all[i]->cluster, &Cluster::name);
      if (!moved || told[*moved]->in(cluster) != nullptr) now[i] = apart(*all[i], clusters);
    }
    if (!moved) before = now;
    return now;
  };
  descend(unknowns, weights, errors, trials);
  std::vector<double> at;
  for (const Unknown& one : unknowns) at.push_back(one.at);
  place(at);
}

std::vector<std::pair<std::string, double>> fit_again(const std::string& directory, int trials) {
  const RunsByTable tables = fitted_runs(directory);
  std::vector<Cluster> clusters = clusters_of(all_of(tables));
  const std::vector<Constant> constants = fitted_constants();
  for (const Constant& constant : constants) set(constant, clusters, constant.expected);
  fit(tables, constants, clusters, trials);
  std::vector<std::pair<std::string, double>> values;
  for (const Constant& constant : constants)
    for (Cluster& cluster : clusters)
      if (const double* value = constant.in(cluster)) {
        values.emplace_back(constant.name, *value);
        break;
      }
  return values;
}

CasesByTable unmeasured_cases(const std::string& directory) {
  const RunsByTable tables = fitted_runs(directory);
  std::vector<Cluster> clusters = clusters_of(all_of(tables));
  for (Cluster& cluster : clusters) {
    cluster.gpu.efficiency = {};
    cluster.gpu.fitted = false;
    for (planner::NetworkTier& tier : cluster.tiers)
      tier.efficiency = planner::NetworkTier().efficiency;
  }
  CasesByTable cases;
  for (const auto& [name, runs] : tables)
    for (const Run& run : runs) cases[name].push_back(step_time_case(run, clusters, simulated));
  return cases;
}

// As many folds as the table with most groups has, so that each leaves out at most one group of a table; its fit begins where
// nothing is known.
CasesByTable left_out_cases(const std::string& directory, int trials,
                            const std::function<void(const std::string&)>& progress) {
  const RunsByTable tables = fitted_runs(directory);
  std::vector<Cluster> unknown = clusters_of(all_of(tables));
  for (const Constant& constant : fitted_constants()) set(constant, unknown, constant.expected);
  std::map<std::pair<std::string, std::string>, int> folds;
  for (const auto& [name, runs] : tables)
    for (const Run& run : runs) folds.emplace(std::pair(name, run.group), 0);
  std::map<std::string, int> groups;
  for (const auto& [group, fold] : folds) ++groups[group.first];
  int most = 0, next = 0;
  for (const auto& [name, count] : groups) most = std::max(most, count);
  for (auto& [group, fold] : folds) fold = next++ % most;
  CasesByTable cases;
  for (int fold = 0; fold < most; ++fold) {
    progress(fmt::format("fit {} of {}, each without one group of a table", fold + 1, most));
    const auto left_out = [&](const std::string& name, const Run& run) {
      return folds.at({name, run.group}) == fold;
    };
    RunsByTable others = tables;
    for (auto& [name, runs] : others)
      std::erase_if(runs, [&, name = name](const Run& run) { return left_out(name, run); });
    std::vector<Cluster> clusters = unknown;
    fit(others, fitted_constants(), clusters, trials);
    for (const auto& [name, runs] : tables)
      for (const Run& run : runs)
        if (left_out(name, run)) cases[name].push_back(step_time_case(run, clusters, simulated));
  }
  return cases;
}

}  // namespace trireme::scoreboard
