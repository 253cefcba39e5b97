#include "trireme/planner/search/communication.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/values/yaml.h"
#include "trireme/plan/simulate/round.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/planner/search/screened.h"

namespace trireme::planner {
namespace {

// Percent of validation loss that each way costs, from docs/results/collectives.md#losses and #islands; negative: the run
// was not measured.
struct Way {
  const char* name;
  const char* codec = nullptr;   // network.codec
  const char* gather = nullptr;  // network.gather, without its ranks
  int every = 0;                 // steps between merges of islands; 0: none
  bool streams = false;
  double loss = -1;
};
constexpr Way kWays[] = {
    {.name = "bf16", .codec = "bf16/bf16", .loss = 0},
    {.name = "q8", .codec = "q8/q8", .loss = 0},
    {.name = "i8x", .codec = "i8x"},
    {.name = "q4", .codec = "q4/q8"},
    {.name = "q4_residual", .codec = "q4:bf16/q4"},
    {.name = "lowrank", .codec = "lowrank:4"},
    {.name = "gather", .gather = "q8", .loss = 0},
    {.name = "zeropp", .codec = "q4", .gather = "q8", .loss = 0.59},
    {.name = "diloco_10", .every = 10},
    {.name = "diloco_30", .every = 30, .loss = 0.71},
    {.name = "diloco_100", .every = 100},
    {.name = "diloco_500", .every = 500},
    {.name = "streaming", .every = 30, .streams = true},
};

// GB/s of fp32 that a core encodes and decodes, from docs/results/collectives.md#codecs.
struct CodecRate {
  const char* name;
  double encode, decode;
};
constexpr CodecRate kCodecRates[] = {{"bf16", 5.4, 75.7}, {"q8", 31.0, 89.5},  {"q4", 29.4, 63.4},
                                     {"f4", 16.0, 46.4},  {"i8x", 41.5, 32.8}, {"i4x", 37.9, 36.1}};

// Seconds of coding a value of fp32 once and decoding it once.
double codec_seconds(const std::string& codec) {
  for (const CodecRate& rate : kCodecRates)
    if (codec == rate.name)
      return sizeof(float) * (1 / (1e9 * rate.encode) + 1 / (1e9 * rate.decode));
  return 0;
}

// Of a value of the network's settings, on its way there and back.
double codec_seconds(const config::Network& network) {
  if (const auto outer = config::outer_settings(network))
    return (codec_seconds(outer->codec) + codec_seconds(outer->back)) /
           static_cast<double>(outer->every);
  const config::SumCodecs sums = config::sum_codecs(network);
  return codec_seconds(sums.codec) + codec_seconds(sums.back) +
         codec_seconds(config::gather_codec(network).codec);
}

int hosts_of(const Answer& answer, const Layout& layout) {
  const int each = answer.question.cluster.gpus_per_host;
  return (layout.world() + each - 1) / each;
}

class Comparison {
 public:
  Comparison(Answer& answer, const Settings& settings)
      : answer_(answer),
        settings_(settings),
        best_(data_parallel(answer)),
        hosts_(hosts_of(answer, best_.layout)) {}

  void run() {
    std::vector<Communication>& all = answer_.communications;
    Question& question = answer_.question;
    const Reducers reducers = question.cluster.reducers;
    if (reducers.hosts > 0) {
      all.push_back(exact("servers", best_.layout));
      price(all.back(), question);
      question.cluster.reducers = {};
    }
    const Layout first = answer_.options.front().layout;
    all.push_back(exact("dense", first));
    price(all.back(), question);
    if (!(first == best_.layout)) {
      all.push_back(exact("data_parallel", best_.layout));
      price(all.back(), question);
    }
    const Communication dense = all.back();
    for (const Way& way : kWays) all.push_back(priced(way, question, dense));
    question.cluster.reducers = reducers;
    choose(dense);
  }

 private:
  // The best option if it has no stages, or else the best without: hosts of stages exchange no gradients.
  static Option data_parallel(const Answer& answer) {
    const Option& best = answer.options.front();
    if (best.layout.pp == 1) return best;
    Question apart = answer.question;
    apart.job.parallel.pp = 1;
    if (!apart.keeps("parallel.pp")) apart.kept.emplace_back("parallel.pp");
    try {
      return search(std::move(apart), {.options = 1, .explain = false}).options.front();
    } catch (const Error&) {
      return best;
    }
  }

  Communication exact(const std::string& name, const Layout& layout) const {
    return {.name = name,
            .layout = layout,
            .network = answer_.question.job.network,
            .exact = true,
            .loss = 0,
            .allowed = true};
  }

  // Whether it may be chosen; else says why.
  void judge(Communication& one, const Way& way) const {
    const bool named = std::ranges::count(settings_.allow, one.name) > 0;
    constexpr std::int64_t kRounds = 100;  // fewer merges than that cost more than was measured
    const std::int64_t steps = answer_.question.job.run.steps;
    const bool covers = settings_.max_loss && one.loss && *one.loss <= *settings_.max_loss;
    const bool few = way.every > 0 && steps < kRounds * way.every;
    one.allowed = named || (covers && !few);
    if (one.allowed) return;
    if (covers)
      one.why = fmt::format("run.steps={} has fewer than {} rounds; --allow {}", steps, kRounds,
                            one.name);
    else if (one.loss)
      one.why = fmt::format("approximate, loss +{} % as measured; --allow {} or --max-loss {}",
                            *one.loss, one.name, *one.loss);
    else
      one.why = fmt::format("approximate, loss not measured; --allow {}", one.name);
  }

  Communication priced(const Way& way, const Question& question, const Communication& dense) const {
    Communication one = dense;
    one.name = way.name;
    one.exact = false;
    one.seconds = one.sent = 0;
    one.loss = way.loss >= 0 ? std::optional(way.loss) : std::nullopt;
    judge(one, way);
    if (way.codec != nullptr) one.network.codec = way.codec;
    if (way.gather != nullptr) one.network.gather = gather_text(way.gather);
    if (way.every == 0) {
      price(one, question);
    } else {
      price_islands(one, way, question);
    }
    if (one.seconds == 0) return one;
    config::Job job = question.job;
    job.network = one.network;
    const auto uncoded = static_cast<double>(config::uncoded_steps(job));
    const double share = uncoded / static_cast<double>(job.run.steps);  // of a run's steps
    one.seconds += share * (dense.seconds - one.seconds);
    one.sent += share * (dense.sent - one.sent);
    const double values = best_.trained / (best_.layout.pp * best_.layout.tp);
    const int members = std::max(1, best_.layout.dp() * best_.layout.cp / hosts_);
    one.codec_s = values / members * codec_seconds(one.network);
    if (one.codec_s > 0) one.below = (dense.sent - one.sent) / one.codec_s;
    return one;
  }

  // ZeRO-3 keeps codes inside the host for its second gather.
  std::string gather_text(const char* codec) const {
    const int here = best_.layout.dp_shard / hosts_;
    return best_.layout.zero == 3 && here > 1 ? fmt::format("{}:{}", codec, here) : codec;
  }

  // One island on each host.
  void price_islands(Communication& one, const Way& way, const Question& question) const {
    Layout& layout = one.layout;
    const int dp = layout.dp();
    if (dp % hosts_ != 0) {
      one.why = fmt::format("{} data-parallel ranks make no {} equal islands", dp, hosts_);
      one.allowed = false;
      return;
    }
    layout.dp_replicate = hosts_;
    layout.dp_shard = dp / hosts_;
    if (layout.dp_shard * layout.cp == 1) layout.zero = 0;
    std::string text = fmt::format("islands:{},every:{}", hosts_, way.every);
    if (!on_gpus(question.cluster)) text += ",codec:f4,back:q8";
    if (!way.streams) {
      one.network.outer = text;
      return price(one, question);
    }
    const std::int64_t layers = question.job.model.layers;
    const std::int64_t fragments =
        std::min<std::int64_t>(layers, std::max<std::int64_t>(6, layers / 3));
    Communication tried = one;
    for (const int delay : {1, 2, 4, 8, 14}) {
      tried.network.outer = fmt::format("{},fragments:{},delay:{}", text, fragments, delay);
      price(tried, question);
      constexpr double kGain = 0.99;
      if (one.seconds > 0 && tried.seconds > kGain * one.seconds) break;
      one = tried;
    }
  }

  // Compiles the layout with these settings; `why` is set where they cannot be.
  void price(Communication& one, const Question& question) const {
    Question asked = question;
    asked.job.network = one.network;
    Refusal refusal;
    const Priced priced{
        .layout = one.layout, .price = {.seconds = best_.screen}, .estimate = best_.estimate};
    const std::optional<Option> option = compiled(asked, priced, true, &refusal);
    if (!option) {
      const std::string why = refusal.error ? refusal.error->what() : "it fits no host";
      one.why = why.substr(0, why.find(';'));
      one.allowed = false;
      return;
    }
    const Cluster& cluster = asked.cluster;
    const plan::PlanSet plan = Candidate(option->job, asked.practice).plan();
    one.seconds = option->seconds;
    one.sent = simulate::crossing_bytes(plan, 0, cluster.gpus_per_host);
    if (one.name == "servers") one.sent *= hosts_ / (2.0 * (hosts_ - 1));  // each byte once
    const auto round = simulate::round_of(plan, [&](const plan::PlanSet& other) {
      return forecast_on(other, option->job, asked.practice, cluster).step_s;
    });
    if (!round) return;
    const auto steps = static_cast<double>(round->steps);
    one.seconds += round->merging_s / steps;
    one.sent += round->sent_bytes * cluster.gpus_per_host / steps;
  }

  void choose(const Communication& dense) {
    constexpr double kClearly = 0.995;
    Communication* best =
        &*std::ranges::find(answer_.communications, std::string("dense"), &Communication::name);
    if (dense.seconds == 0) return;
    for (Communication& one : answer_.communications)
      if (one.allowed && one.seconds > 0 && one.seconds < kClearly * best->seconds) best = &one;
    Option& first = answer_.options.front();
    const auto take = [&] {
      best->chosen = true;
      if (best->name != "servers") answer_.question.cluster.reducers = {};
    };
    if (best->exact && best->layout == first.layout) {
      first.seconds = best->seconds;
      return take();
    }
    Question asked = answer_.question;
    asked.job.network = best->network;
    const Priced priced{
        .layout = best->layout, .price = {.seconds = best_.screen}, .estimate = best_.estimate};
    if (std::optional<Option> option = compiled(asked, priced, true)) {
      const double low = option->low / option->seconds, high = option->high / option->seconds;
      option->seconds = best->seconds;
      option->low = low * best->seconds;
      option->high = high * best->seconds;
      first = std::move(*option);
      take();
    }
  }

  Answer& answer_;
  const Settings& settings_;
  const Option best_;
  int hosts_;
};

bool is_slow(const Cluster& cluster) {
  constexpr double kSlow = 1.25e9;  // 10 Gbit/s of a host
  return !cluster.tiers.empty() && cluster.hosts > 1 &&
         cluster.tiers.back().rate * cluster.gpus_per_host < kSlow;
}

}  // namespace

std::vector<std::string> approximate_ways() {
  std::vector<std::string> names;
  for (const Way& way : kWays) names.emplace_back(way.name);
  return names;
}

void check_allowed(const std::vector<std::string>& names) {
  const std::vector<std::string> known = approximate_ways();
  for (const std::string& name : names)
    if (std::ranges::count(known, name) == 0)
      fail(ErrorKind::kUsage, "--allow {}: no such way of communication; choose among {}",
           config::quote(name), fmt::join(known, ", "));
}

void compare_communications(Answer& answer, const Settings& settings) {
  const Cluster& cluster = answer.question.cluster;
  const bool asked = !settings.allow.empty() || settings.max_loss || cluster.links ||
                     cluster.reducers.hosts > 0 || is_slow(cluster);
  const Option& best = answer.options.front();
  if (!asked || !settings.explain || hosts_of(answer, best.layout) < 2) return;
  if (too_long(best.job)) {
    answer.notes.push_back(
        "ways of communication are not compared: a step has too many micro-batches to compile");
    return;
  }
  Comparison(answer, settings).run();
}

}  // namespace trireme::planner
