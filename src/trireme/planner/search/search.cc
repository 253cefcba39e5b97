#include "trireme/planner/search/search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/coded_sums.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/schedules/info.h"
#include "trireme/planner/cost/kernels.h"
#include "trireme/planner/search/communication.h"
#include "trireme/planner/search/report/reasons.h"
#include "trireme/planner/search/screened.h"
#include "trireme/planner/search/space.h"

namespace trireme::planner {
namespace {

double gibibytes(double bytes) { return bytes / (1 << 30); }

// What is compared: seconds, or GPU seconds.
double cost(Objective by, const Layout& layout, double seconds) {
  return by == Objective::kTime ? seconds : seconds * layout.world();
}

// Layouts that differ only in details have one shape.
bool same_shape(const Layout& a, const Layout& b) {
  return a.world() == b.world() && a.pp == b.pp && a.tp == b.tp && a.cp == b.cp &&
         (a.zero == 3) == (b.zero == 3);
}

// How much there is in a layout that can go wrong.
int complexity(const Layout& layout) {
  return 4 * static_cast<int>(layout.away) + 2 * (layout.pp > 1) + 2 * (layout.cp > 1) +
         2 * (layout.tp > 1) + layout.zero + (layout.dp_replicate > 1) +
         schedules::info(layout.schedule).complexity + static_cast<int>(layout.recomputed);
}

// Whole hosts, halved from all of them; below a host its parts.
std::vector<int> gpu_counts(const Question& question, Objective by) {
  std::vector<int> counts = {question.gpus};
  if (by == Objective::kMoney)
    while (counts.back() % 2 == 0) counts.push_back(counts.back() / 2);
  return counts;
}

// Of one number of GPUs.
struct Count {
  Question question;
  std::unique_ptr<Screened> screened;
  double least = 0;  // seconds of the best by the second screen; 0: nothing fits
};

class Search {
 public:
  Search(Question question, const Settings& settings)
      : settings_(settings), whole_(completed(std::move(question))) {}

  Answer run() {
    const Stopwatch watch;
    sift(Away::kNothing);
    if (options_.empty()) {  // where nothing else fits
      sift(Away::kOptimizer);
      if (options_.empty()) sift(Away::kEverything);
    }
    if (options_.empty()) refuse();
    Answer answer{.question = question_of(options_.front().layout),
                  .by = settings_.by,
                  .options = std::move(options_),
                  .effort = effort_};
    if (settings_.explain) {
      say("explaining");
      const Screened& screened = *part_of(answer.options.front().layout).screened;
      answer.reasons = reasons(answer, screened);
      if (settings_.by == Objective::kMoney)
        answer.reasons.insert(answer.reasons.begin(), reason_of_count(answer.options.front()));
      answer.changes = changes(answer, screened);
      answer.notes = notes(answer);
    }
    answer.effort.seconds = watch.seconds();
    return answer;
  }

 private:
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const Count& part_of(const Layout& layout) const {
    return *std::ranges::find_if(
        parts_, [&](const Count& part) { return part.question.gpus == layout.world(); });
  }
  const Question& question_of(const Layout& layout) const { return part_of(layout).question; }

  // Through all three screens with this much in host memory.
  void sift(Away away) {
    parts_.clear();
    std::vector<Priced> best;
    for (const int gpus : gpu_counts(whole_, settings_.by)) {
      Count& part = parts_.emplace_back(Count{.question = whole_, .screened = nullptr, .least = 0});
      part.question.gpus = gpus;
      if (gpus > 1 && on_gpus(whole_.cluster))
        part.question.job.precision.numerics = config::Numerics::kFast,
        part.question.job.precision.group = 0;
      say("pricing the layouts of " + devices(whole_.cluster, gpus));
      part.screened = std::make_unique<Screened>(part.question, away);
      effort_.layouts += part.screened->seen();
      effort_.fitting += static_cast<std::int64_t>(part.screened->fitting().size());
      const std::vector<Priced> some = part.screened->best(settings_.estimated);
      if (const auto& refused = part.screened->refusal().error) refusal_.take(*refused);
      part.least = some.empty() ? 0 : some.front().estimate;
      effort_.estimated += static_cast<int>(some.size());
      best.insert(best.end(), some.begin(), some.end());
    }
    std::ranges::stable_sort(
        best, {}, [&](const Priced& one) { return cost(settings_.by, one.layout, one.estimate); });
    compile(best);
  }

  // The best few in any shape, and the best of other shapes.
  void compile(const std::vector<Priced>& best) {
    constexpr int kFinalists = 4;
    int tried = 0, kept = 0;
    for (const Priced& priced : best) {
      if (tried >= settings_.compiled) break;
      const auto alike = std::ranges::count_if(
          options_, [&](const Option& option) { return same_shape(option.layout, priced.layout); });
      const bool full = static_cast<int>(options_.size()) >= settings_.options + kFinalists;
      if (full) break;
      if (kept >= kFinalists && alike > 0) continue;
      ++tried;
      say(fmt::format("proving {}", text(priced.layout)));
      if (std::optional<Option> option =
              compiled(question_of(priced.layout), priced, false, &refusal_)) {
        options_.push_back(std::move(*option));
        ++kept;
      }
    }
    effort_.compiled += tried;
    prove_first();
    std::vector<Option> shapes;
    for (Option& option : options_)
      if (std::ranges::none_of(shapes, [&](const Option& better) {
            return same_shape(better.layout, option.layout);
          }))
        shapes.push_back(std::move(option));
    if (static_cast<int>(shapes.size()) > settings_.options)
      shapes.resize(static_cast<std::size_t>(settings_.options));
    options_ = std::move(shapes);
  }

  // The plan that is recommended is compiled whole.
  void prove_first() {
    const auto sort = [&] {
      std::ranges::stable_sort(options_, {}, [&](const Option& option) {
        return cost(settings_.by, option.layout, option.seconds);
      });
    };
    sort();
    prefer_simple();
    while (!options_.empty() && !options_.front().whole) {
      const Option& first = options_.front();
      if (too_long(first.job)) break;
      say(fmt::format("proving all of {}", text(first.layout)));
      const Priced priced{
          .layout = first.layout, .price = {.seconds = first.screen}, .estimate = first.estimate};
      if (std::optional<Option> whole = compiled(question_of(first.layout), priced, true))
        options_.front() = std::move(*whole);
      else
        options_.erase(options_.begin());
      sort();
      prefer_simple();
    }
  }

  // Of what costs as much as the best, the simplest comes first, on as many GPUs as end soonest.
  void prefer_simple() {
    constexpr double kAlike = 1.005;
    if (options_.empty()) return;
    const auto price = [&](const Option& option) {
      return cost(settings_.by, option.layout, option.seconds);
    };
    const double most = kAlike * price(options_.front());
    std::size_t first = 0, end = 1;
    for (; end < options_.size() && price(options_[end]) <= most; ++end)
      if (options_[end].seconds < options_[first].seconds) first = end;
    const int gpus = options_[first].layout.world();
    for (std::size_t at = 0; at < end; ++at)
      if (options_[at].layout.world() == gpus &&
          complexity(options_[at].layout) < complexity(options_[first].layout))
        first = at;
    std::rotate(options_.begin(), options_.begin() + static_cast<std::ptrdiff_t>(first),
                options_.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  }

  [[noreturn]] void refuse() {
    const Question& question = parts_.front().question;
    const Screened plain(question, Away::kNothing);
    if (!plain.smallest() && plain.crowded())
      fail(ErrorKind::kOutOfMemory,
           "offloading needs {:.1f} GiB of host memory for each of {} ({}), but there are "
           "{:.1f} GiB; offload less, or give the cluster more host_memory",
           gibibytes(plain.crowded()->price.host),
           devices(question.cluster, std::min(question.gpus, question.cluster.gpus_per_host)),
           text(plain.crowded()->layout),
           gibibytes(static_cast<double>(question.cluster.host_memory)));
    if (!plain.smallest()) refuse_space(question);
    const Priced& least = *plain.smallest();
    const Cluster& cluster = question.cluster;
    // Where memory is not what is missing, what is.
    if (least.price.bytes <= plain.limit() && refusal_.error)
      fail(refusal_.error->kind(), "no layout of {} is possible: {}",
           devices(cluster, question.gpus), refusal_.error->what());
    if (plain.limit() < usable_memory(question))
      fail(ErrorKind::kOutOfMemory,
           "no layout of {} fits recompute.memory={}: the smallest need is {:.1f} GiB for each "
           "({}); "
           "allow more, or take more of them",
           devices(cluster, question.gpus), exact_text(question.job.recompute.memory),
           gibibytes(least.price.bytes), text(least.layout));
    // What one GPU lacks, others share.
    int more = question.gpus;
    std::optional<int> enough;
    for (int doubled = 2 * question.gpus; doubled <= 64 * question.gpus && !enough; doubled *= 2) {
      Question larger = question;
      larger.gpus = doubled;
      larger.cluster.hosts =
          std::max(cluster.hosts, (doubled + cluster.gpus_per_host - 1) / cluster.gpus_per_host);
      const Screened screened(larger, Away::kNothing);
      if (screened.smallest() && screened.smallest()->price.bytes <= screened.limit())
        enough = doubled;
      more = doubled;
    }
    const int hosts = (enough.value_or(0) + cluster.gpus_per_host - 1) / cluster.gpus_per_host;
    const std::string help =
        enough
            ? fmt::format("{} are enough{}", devices(cluster, *enough),
                          hosts > cluster.hosts
                              ? fmt::format(", on {} hosts, of which the cluster has {}", hosts,
                                            cluster.hosts)
                              : "")
            : fmt::format("not even {} are enough: shorten model.seq_len", devices(cluster, more));
    fail(ErrorKind::kOutOfMemory,
         "nothing fits on {}: the smallest need is {:.1f} GiB for each ({}), a {} has {:.1f} GiB, "
         "of "
         "which {:.0f} % can be used{}; {}",
         devices(cluster, question.gpus), gibibytes(least.price.bytes), text(least.layout),
         cluster.gpu.name, gibibytes(memory_of(question)), 100 * kUsable,
         cluster.host_rate > 0 && cluster.host_memory > 0
             ? ", and offloading to host memory does not save enough"
             : "",
         help);
  }

  // What a token costs on the other numbers of GPUs.
  Reason reason_of_count(const Option& best) const {
    std::string text = devices(whole_.cluster, best.layout.world());
    const Count& own = part_of(best.layout);
    const double cost = own.least * own.question.gpus;
    std::string_view between = ":";
    for (const Count& part : parts_) {
      if (part.question.gpus == own.question.gpus) continue;
      const double percent = 100 * (part.least * part.question.gpus / cost - 1);
      text += part.least == 0
                  ? fmt::format("{} nothing fits on {}", between, part.question.gpus)
                  : fmt::format("{} a token costs {:.1f} % {} on {}, {:.3g} times as long a step",
                                between, std::abs(percent), percent < 0 ? "less" : "more",
                                part.question.gpus, part.least / own.least);
      between = ";";
    }
    return {Choice::kGpus, text};
  }

  const Settings& settings_;
  Question whole_;
  std::deque<Count> parts_;
  std::vector<Option> options_;
  Refusal refusal_;
  Effort effort_;
};

}  // namespace

double needed(const Question& question, const Option& option) {
  return option.memory.needed() + (on_gpus(question.cluster) ? 0 : option.memory.of(Pool::kHost));
}

double Option::tokens() const { return static_cast<double>(job.run.global_batch * sample_tokens); }

double Option::mfu(const Cluster& cluster) const {
  return model_flops /
         (seconds * layout.world() * peak(cluster.gpu, math_of(job.precision.compute)));
}

Answer search(Question question, const Settings& settings) {
  if (config::outer_settings(question.job.network))
    fail(ErrorKind::kUsage,
         "network.outer={}: the search compares layouts of one island; set network.outer=none, or "
         "compare layouts with trireme explain",
         question.job.network.outer);
  if (config::codes_sums(question.job) || config::codes_gathers(question.job))
    fail(ErrorKind::kUsage,
         "network.codec={}, network.gather={}: the search prices what travels as it is; set both "
         "to none, or compare layouts with trireme explain",
         question.job.network.codec, question.job.network.gather);
  check_allowed(settings.allow);
  Answer answer = Search(std::move(question), settings).run();
  compare_communications(answer, settings);
  return answer;
}

}  // namespace trireme::planner
