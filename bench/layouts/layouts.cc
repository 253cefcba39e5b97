// layouts [--pairs N] [--seed S] | --pair NUMBER: random pairs of layouts, held to what docs/numerics.md promises.
// Before them come the exceptions of its table, each with a pair that must differ in bits and may not differ by more.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apps/guard.h"
#include "bench/layouts/pair.h"
#include "bench/numbers.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::layouts {
namespace {

struct Options {
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> pairs;
  std::optional<std::uint64_t> pair;
};

Options parse(int argc, char** argv) {
  Options options;
  bench::read_numbers(
      argc, argv,
      {{"--seed", &options.seed}, {"--pairs", &options.pairs}, {"--pair", &options.pair}},
      "--pairs N, --seed S or --pair NUMBER");
  return options;
}

class Report {
 public:
  // Runs the pair and says whether its promise holds.
  bool hold(const std::string& name, const Pair& pair, const Promise& promise) {
    const harness::ScratchDirectory desk;
    std::string broken;
    try {
      const Outcome outcome = run(pair, desk.path());
      if (promise.bits ? !outcome.bits : !outcome.near())
        broken = fmt::format("{}; relative difference {:.2g} of one step, {:.2g} of all",
                             outcome.first, outcome.one_step, outcome.distance);
      else if (!promise.bits)
        farthest_ = {std::max(farthest_.first, outcome.one_step),
                     std::max(farthest_.second, outcome.distance)};
      bits_ += outcome.bits;
    } catch (const Error& error) {
      // A batch can have too few rows for its ranks, which no plan knows before it runs.
      if (error.kind() == ErrorKind::kUsage)
        ++counts_["refused for a batch that has too few rows"];
      else
        broken = error.what();
    }
    const std::string promised = promise.bits ? "the same bits" : "1e-12: " + promise.exception;
    ++counts_[promised];
    ++counts_[fmt::format("recipe {}", pair.recipe)];
    if (pair.before > 0) ++counts_["resumed under the other layout"];
    for (const std::string& set : pair.model)
      if (set.starts_with("precision.compute")) ++counts_[set];
    for (const auto& [key, what] :
         {std::pair("recompute.policy", "with recomputation"), {"offload.", "with offloading"}})
      if (has(pair.one, key) || has(pair.other, key)) ++counts_[what];
    if (broken.empty()) return true;
    fmt::print("{}: promised {}, but {}\n{}", name, promised, broken, commands(pair));
    std::fflush(stdout);
    return false;
  }

  void print() const {
    for (const auto& [what, count] : counts_) fmt::print("  {:>6}  {}\n", count, what);
    fmt::print(
        "  {} have the same bits; others are at most {:.2g} apart in one step, {:.2g} in three\n",
        bits_, farthest_.first, farthest_.second);
  }

 private:
  static bool has(const Sets& sets, std::string_view key) {
    return std::ranges::any_of(sets, [&](const std::string& set) { return set.starts_with(key); });
  }

  std::map<std::string, int> counts_;
  int bits_ = 0;
  std::pair<double, double> farthest_;  // of one step and of all
};

// The table in docs/numerics.md has a row for every exception, and no more: "| **NAME** | ...".
int check_table() {
  const std::string page = read_file(Path(TRIREME_SOURCE_DIR) / "docs" / "numerics.md");
  std::set<std::string> rows, known;
  constexpr std::string_view kRow = "\n| **";
  for (std::size_t at = 0; (at = page.find(kRow, at)) != std::string::npos;) {
    at += kRow.size();
    rows.insert(page.substr(at, page.find("**", at) - at));
  }
  for (const Exception& exception : exceptions()) known.insert(exception.name);
  if (rows == known) return 0;
  fmt::print("docs/numerics.md and bench/layouts name different exceptions:\n");
  for (const std::string& row : rows)
    if (!known.contains(row)) fmt::print("  only in docs/numerics.md: {}\n", row);
  for (const std::string& name : known)
    if (!rows.contains(name)) fmt::print("  only in bench/layouts: {}\n", name);
  return 1;
}

// Each exception is one: 1e-12 apart at most, and not the same bits.
int check_exceptions() {
  int failed = 0;
  for (const auto& [name, pair] : exceptions()) {
    const Promise promise = promise_of(plan_of(pair, pair.one), plan_of(pair, pair.other));
    const harness::ScratchDirectory desk;
    const Outcome outcome = run(pair, desk.path());
    const bool held = !promise.bits && promise.exception == name && !outcome.bits && outcome.near();
    if (!held)
      fmt::print("exception \"{}\": is promised {} and is {:.2g} apart{}\n{}", name,
                 promise.bits ? "the same bits" : promise.exception, outcome.distance,
                 outcome.bits ? ", the same bits" : "", commands(pair));
    failed += !held;
  }
  return failed;
}

int layouts(const Options& options) {
  at::set_num_threads(1);
  const Stopwatch watch;
  Report report;
  const auto hold = [&](std::uint64_t number) {
    const Pair pair = draw(number);
    const Promise promise = promise_of(plan_of(pair, pair.one), plan_of(pair, pair.other));
    return report.hold(fmt::format("./dev bench layouts --pair {}", number), pair, promise);
  };
  int failed = 0;
  std::uint64_t pairs = 1;
  if (options.pair) {
    failed += !hold(*options.pair);
  } else {
    failed = check_table() + check_exceptions();
    for (pairs = 0; pairs < options.pairs.value_or(20); ++pairs)
      failed += !hold(bench::seed_of(options.seed.value_or(1), pairs));
  }
  fmt::print("{} pairs of seed {} in {:.0f} s, {} failed\n", pairs, options.seed.value_or(1),
             watch.seconds(), failed);
  report.print();
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace trireme::layouts

int main(int argc, char** argv) {
  return trireme::app::guarded(
      [&] { return trireme::layouts::layouts(trireme::layouts::parse(argc, argv)); });
}
