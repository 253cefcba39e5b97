// simulate [--seed S] [--faults N] | --life SEED: simulated lives until so many faults were made, by kind; a life that
// breaks a rule ends it with the command that repeats it.
#include <optional>
#include <string>
#include <string_view>

#include "apps/guard.h"
#include "bench/numbers.h"
#include "tests/launch/elastic/simulation.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::elastic {
namespace {

struct Options {
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> faults;
  std::optional<std::uint64_t> life;
};

Options parse(int argc, char** argv) {
  Options options;
  bench::read_numbers(
      argc, argv,
      {{"--seed", &options.seed}, {"--faults", &options.faults}, {"--life", &options.life}},
      "--seed S, --faults N or --life SEED");
  return options;
}

bool is_of_messages(std::size_t kind) {
  return kind >= static_cast<std::size_t>(Mishap::kMessageLost);
}

int simulate(const Options& options) {
  const Stopwatch watch;
  std::uint64_t lives = 0, faults = 0, of_messages = 0, overtaken = 0, events = 0, generations = 0;
  MishapCounts counts{};
  std::string violation;
  for (; violation.empty() && (options.life ? lives < 1 : faults < options.faults.value_or(100000));
       ++lives) {
    const std::uint64_t seed =
        options.life.value_or(bench::seed_of(options.seed.value_or(1), lives));
    Simulation life(seed, {});
    violation = life.live();
    if (!violation.empty())
      fmt::print("{}\nREPRO: ./dev bench simulate --life {}\n", violation, seed);
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      counts[kind] += life.mishaps[kind];
      (is_of_messages(kind) ? of_messages : faults) += life.mishaps[kind];
    }
    overtaken += life.overtaken;
    events += life.events;
    generations += life.generations;
  }
  for (std::size_t kind = 0; kind < counts.size(); ++kind)
    fmt::print("{:>9}  {}\n", counts[kind], name(static_cast<Mishap>(kind)));
  fmt::print("{:>9}  message overtaken by a later one\n", overtaken);
  fmt::print(
      "{} faults and {} of single messages in {} lives, {} generations, {} events; {:.0f} s, "
      "{:.0f} "
      "lives/s; {} lives broke a rule\n",
      faults, of_messages, lives, generations, events, watch.seconds(),
      static_cast<double>(lives) / watch.seconds(), violation.empty() ? 0 : 1);
  return violation.empty() ? 0 : 1;
}

}  // namespace
}  // namespace trireme::elastic

int main(int argc, char** argv) {
  return trireme::app::guarded(
      [&] { return trireme::elastic::simulate(trireme::elastic::parse(argc, argv)); });
}
