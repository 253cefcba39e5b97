#include "trireme/planner/tables/fit.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/planner/cluster_file.h"
#include "trireme/planner/tables/registry.h"
#include "trireme/planner/tables/tolerant.h"
#include "trireme/planner/uncertainty.h"

namespace trireme::planner::tables {
namespace {

using RunsByTable = std::map<std::string, std::vector<Run>>;

constexpr double kOfLargest = 0.1;  // how much a table's worst run counts beside the mean
// Of what a table is held to: below kNearly of it, better counts kWithin as much.
constexpr double kNearly = 0.8, kWithin = 0.1;

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

}  // namespace

std::vector<Constant> fitted_constants() {
  struct Field {
    const char* name;
    double Efficiency::*at;
    double low, high;
  };
  const std::vector<Field> fields = {{"gemm", &Efficiency::gemm, 0.3, 1},
                                     {"crosswise", &Efficiency::crosswise, 0.4, 1},
                                     {"depth", &Efficiency::depth, 8, 2000},
                                     {"tile", &Efficiency::tile, 0.01, 0.5},
                                     {"misaligned", &Efficiency::misaligned, 0.05, 1},
                                     {"memory", &Efficiency::memory, 0.3, 1},
                                     {"attention", &Efficiency::attention, 0.1, 1},
                                     {"shared", &Efficiency::shared, 0.5, 1},
                                     {"kernel_s", &Efficiency::kernel_s, 1e-6, 3e-5},
                                     {"blocked_s", &Efficiency::blocked_s, 1e-6, 3e-4}};
  std::vector<Constant> constants;
  for (const std::string gpu : {"a100", "h100"}) {
    for (const Field& field : fields) {
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
                           .high = field.high});
    }
    constants.push_back({.name = gpu + ": nvlink",
                         .in =
                             [gpu](Cluster& cluster) {
                               return cluster.gpu.name.starts_with(gpu)
                                          ? &cluster.tiers.front().efficiency
                                          : nullptr;
                             },
                         .low = 0.1});
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
                         .low = 0.05});
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
  const Band within = band(one.forecast);
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
      {"megatron_core_h100", megatron_core_runs}};
  RunsByTable tables;
  for (const auto& [name, read] : readers) {
    const Path file = Path(directory) / (name + ".csv");
    if (!std::filesystem::exists(file)) continue;
    std::vector<Run> runs;
    const auto take = [&, read = read](const Csv& rows) { runs = read(rows); };
    take(sift(Csv::read(file.string()), take).rows);
    std::erase_if(runs, [](const Run& run) { return !run.unscored.empty() || !run.apart.empty(); });
    tables.emplace(name, std::move(runs));
  }
  return tables;
}

double misfit(const RunsByTable& tables, const std::vector<Cluster>& clusters) {
  double sum = 0;
  for (const auto& [name, runs] : tables) {
    double table = 0, largest = 0;
    for (const Run& run : runs) {
      const double apart = std::abs(std::log(estimated(run, clusters) / run.seconds));
      table += apart;
      largest = std::max(largest, apart);
    }
    if (runs.empty()) continue;
    const double reached = 100 * table / static_cast<double>(runs.size()) / bar_of(name);
    sum += kWithin * reached + std::max(reached - kNearly, 0.0) + kOfLargest * largest;
  }
  return sum;
}

void fit(const RunsByTable& tables, const std::vector<Constant>& constants,
         std::vector<Cluster>& clusters, int trials) {
  constexpr double kFirstWidth = 0.1, kNarrowest = 1e-3, kWidest = 0.5, kWiden = 1.5,
                   kNarrow = 0.92;
  std::vector<const Constant*> free;
  std::vector<double> at;
  for (const Constant& constant : constants)
    for (Cluster& cluster : clusters)
      if (const double* value = constant.in(cluster)) {
        free.push_back(&constant);
        at.push_back(*value);
        break;
      }
  std::mt19937_64 draw(1);
  std::normal_distribution<double> normal;
  double best = misfit(tables, clusters), width = kFirstWidth;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> tried = at;
    for (std::size_t i = 0; i < free.size(); ++i) {
      tried[i] = std::clamp(at[i] * std::exp(width * normal(draw)), free[i]->low, free[i]->high);
      set(*free[i], clusters, tried[i]);
    }
    const double now = misfit(tables, clusters);
    const bool better = now < best;
    if (better) {
      best = now;
      at = std::move(tried);
    }
    width = std::clamp(width * (better ? kWiden : kNarrow), kNarrowest, kWidest);
  }
  for (std::size_t i = 0; i < free.size(); ++i) set(*free[i], clusters, at[i]);
}

std::vector<std::pair<std::string, double>> fit_again(const std::string& directory, int trials) {
  const RunsByTable tables = fitted_runs(directory);
  std::vector<Cluster> clusters = clusters_of(all_of(tables));
  const std::vector<Constant> constants = fitted_constants();
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

// Groups are dealt to folds in turn; a fold's groups are all left out of its fit, which begins where nothing is known.
LeftOut left_out_cases(const std::string& directory, int trials,
                       const std::function<void(const std::string&)>& progress) {
  constexpr int kFolds = 6;
  constexpr double kTier = 0.7;
  const RunsByTable tables = fitted_runs(directory);
  std::vector<Cluster> unknown = clusters_of(all_of(tables));
  for (Cluster& cluster : unknown) {
    cluster.gpu.efficiency = {};
    for (Tier& tier : cluster.tiers) tier.efficiency = kTier;
  }
  std::map<std::pair<std::string, std::string>, int> folds;
  for (const auto& [name, runs] : tables)
    for (const Run& run : runs) folds.emplace(std::pair(name, run.group), 0);
  int next = 0;
  for (auto& [group, fold] : folds) fold = next++ % kFolds;
  LeftOut cases;
  for (int fold = 0; fold < kFolds; ++fold) {
    progress(fmt::format("fit {} of {}, without a sixth of the groups", fold + 1, kFolds));
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

}  // namespace trireme::planner::tables
