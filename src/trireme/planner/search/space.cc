#include "trireme/planner/search/space.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::planner {
namespace {

using schedules::Schedule;

std::vector<int> divisors(std::int64_t whole, std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t one = 1; one <= std::min(whole, most); ++one)
    if (whole % one == 0) all.push_back(static_cast<int>(one));
  return all;
}

// A choice that the question keeps, or those there are.
std::vector<int> only(bool kept, int value, std::vector<int> all) {
  return kept ? std::vector{value} : all;
}

struct Order {
  Schedule schedule = Schedule::k1F1B;
  int chunks = 1;
};

class Space {
 public:
  Space(const Question& question, const Screen& screen, Away away)
      : question_(question),
        screen_(screen),
        job_(question.job),
        model_(screen.alone().model),
        batch_(screen.alone().run.global_batch) {
    const config::Parallel& parallel = job_.parallel;
    innermost_ = question.cluster.gpus_per_host;
    if (!question.cluster.tiers.empty())
      innermost_ = std::max(innermost_, question.cluster.tiers.front().span);
    layout_.away = away;
    const auto any = [&](std::string_view section) {
      return std::ranges::any_of(question.kept,
                                 [&](const std::string& key) { return key.starts_with(section); });
    };
    if (any("offload.")) layout_.away = away_of(job_.offload);
    recomputed_ = {Recomputed::kNothing, Recomputed::kAttention, Recomputed::kMlp,
                   Recomputed::kBlocks};
    if (any("recompute."))
      recomputed_ = {recomputed_of(job_.recompute)};
    else
      std::erase_if(recomputed_, [&](Recomputed recomputed) {
        return !can_recompute(screen.alone(), recomputed);
      });
    sequence_ = {true, false};
    if (question.keeps("parallel.sequence_parallel")) sequence_ = {parallel.sequence_parallel};
  }

  void run(const std::function<void(const Layout&, const Family&)>& visit) {
    visit_ = &visit;
    const config::Parallel& parallel = job_.parallel;
    // Of other families config::resolve says what tp and cp share out.
    const bool decoder = config::info(model_.family).chain;
    const std::int64_t widest =
        decoder ? std::min<std::int64_t>(model_.heads, 2 * innermost_) : 2 * innermost_;
    const std::int64_t longest =
        decoder ? std::max<std::int64_t>(model_.seq_len / 2, 1) : question_.gpus;
    for (const int tp :
         only(question_.keeps("parallel.tp"), parallel.tp, divisors(question_.gpus, widest)))
      for (const int cp : only(question_.keeps("parallel.cp"), parallel.cp,
                               divisors(question_.gpus / tp, longest)))
        for (const bool sequence : sequence_) {
          if (tp == 1 && sequence != sequence_.front()) continue;
          layout_.tp = tp;
          layout_.cp = cp;
          layout_.sequence_parallel = sequence;
          if (question_.gpus % (tp * cp) == 0 && can_be()) meshes();
        }
  }

 private:
  // Whether the model can be shared out so, as config::resolve has it.
  bool can_be() const {
    Layout alone = layout_;
    alone.pp = alone.dp_replicate = alone.dp_shard = alone.chunks = 1;
    alone.schedule = Schedule::k1F1B;
    alone.micro_batch = micro_batch_alone(job_);
    alone.zero = 0;
    alone.away = Away::kNothing;
    config::Job job = with_layout(screen_.alone(), alone);
    try {
      config::resolve(std::move(job), alone.world(), question_.data);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      return false;
    }
    return true;
  }

  void meshes() {
    const config::Parallel& parallel = job_.parallel;
    const int rest = question_.gpus / (layout_.tp * layout_.cp);
    for (const int pp :
         only(question_.keeps("parallel.pp"), parallel.pp, divisors(rest, screen_.nodes()))) {
      if (rest % pp != 0 || pp > screen_.nodes()) continue;
      layout_.pp = pp;
      const int dp = rest / pp;
      if (batch_ % dp != 0) continue;
      for (const int shard : divisors(dp, dp)) data_parallel(shard, dp / shard);
    }
  }

  bool shards_well(int shard) const {
    const int group = layout_.tp * layout_.cp * shard, host = question_.cluster.gpus_per_host;
    return host % group == 0 || group % host == 0;
  }

  void data_parallel(int shard, int replicate) {
    const config::Parallel& parallel = job_.parallel;
    const bool kept_shard = question_.keeps("parallel.dp_shard") && parallel.dp_shard > 0;
    const bool kept_replicate = question_.keeps("parallel.dp_replicate");
    if (kept_shard && shard != parallel.dp_shard) return;
    if (kept_replicate && replicate != parallel.dp_replicate) return;
    const bool given = kept_shard || kept_replicate;
    if (replicate > 1 && !given && (shard == 1 || !shards_well(shard))) return;
    layout_.dp_shard = shard;
    layout_.dp_replicate = replicate;
    const bool sharding = shard * layout_.cp > 1;
    std::vector<int> stages = {0, 1, 2, 3};
    if (!sharding) stages = {0};
    for (const int zero : only(question_.keeps("parallel.zero"), parallel.zero, stages)) {
      if (zero == 0 && replicate > 1 && !given) continue;  // nothing is sharded
      layout_.zero = static_cast<std::uint8_t>(zero);
      batches();
    }
  }

  void batches() {
    const std::int64_t share = batch_ / layout_.dp();
    constexpr std::int64_t kMost = 512;
    const Traffic& traffic = screen_.traffic(layout_);
    for (const int size : only(question_.keeps("run.micro_batch"),
                               static_cast<int>(job_.run.micro_batch), divisors(share, kMost))) {
      if (share % size != 0) continue;
      layout_.micro_batch = size;
      for (const Recomputed recomputed : recomputed_) {
        layout_.recomputed = recomputed;
        const Family family{.parts = &screen_.parts(layout_), .traffic = &traffic};
        for (const Order& order : orders(share / size)) {
          layout_.schedule = order.schedule;
          layout_.chunks = order.chunks;
          (*visit_)(layout_, family);
        }
      }
    }
  }

  const std::vector<Order>& orders(std::int64_t micro_batches) {
    orders_.clear();
    const int p = layout_.pp;
    const std::int64_t nodes = screen_.nodes();
    const config::Parallel& parallel = job_.parallel;
    const bool kept = question_.keeps("parallel.schedule");
    const auto offer = [&](Schedule schedule, int chunks) {
      if (kept && schedules::name(schedule) != parallel.schedule) return;
      const bool counted =
          question_.keeps("parallel.virtual_stages") && parallel.virtual_stages > 0;
      if (counted && chunks != parallel.virtual_stages) return;
      if (std::int64_t{p} * chunks <= nodes) orders_.push_back({schedule, chunks});
    };
    if (p == 1 && !kept) {
      orders_.push_back({});
      return orders_;
    }
    for (int index = 0; index < schedules::kScheduleCount; ++index) {
      const auto schedule = static_cast<Schedule>(index);
      const schedules::ScheduleInfo& row = schedules::info(schedule);
      if (!kept && !row.proposed) continue;
      if (row.takes != nullptr && !row.takes(p, static_cast<int>(micro_batches))) continue;
      if (!row.more_chunks)
        offer(schedule, row.chunks);
      else
        for (const int chunks : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16}) offer(schedule, chunks);
    }
    return orders_;
  }

  const Question& question_;
  const Screen& screen_;
  const config::Job& job_;
  const config::Model& model_;
  std::int64_t batch_;
  int innermost_ = 1;
  std::vector<Recomputed> recomputed_;
  std::vector<bool> sequence_;
  std::vector<Order> orders_;
  Layout layout_;
  const std::function<void(const Layout&, const Family&)>* visit_ = nullptr;
};

}  // namespace

void for_layouts(const Question& question, const Screen& screen, Away away,
                 const std::function<void(const Layout&, const Family&)>& visit) {
  Space(question, screen, away).run(visit);
}

void refuse_space(const Question& question) {
  // What is given may say itself why it cannot be.
  if (!question.kept.empty()) {
    config::resolve(question.job, question.gpus, question.data);
    std::string kept;
    for (const std::string& key : question.kept)
      kept += fmt::format("{}{}={}", kept.empty() ? "" : ", ", key,
                          config::write_value(config::find_field(key)->get(question.job)));
    fail(ErrorKind::kUsage,
         "no layout of {} keeps {} with run.global_batch={}; keep fewer keys, or change their "
         "number "
         "or the batch",
         devices(question.cluster, question.gpus), kept, question.job.run.global_batch);
  }
  // One that shares the batch alone may as well.
  if (question.job.run.global_batch % question.gpus == 0) {
    config::Job plain = question.job;
    plain.parallel = {};
    plain.parallel.dp_shard = question.gpus;
    plain.run.micro_batch = 1;
    config::resolve(plain, question.gpus, question.data);
  }
  std::set<std::int64_t> near;
  for (std::int64_t gpus = question.gpus; gpus > 0 && near.size() < 2; --gpus)
    if (question.job.run.global_batch % gpus == 0) near.insert(gpus);
  fail(ErrorKind::kUsage,
       "no layout of {}: they divide neither run.global_batch={} nor the model's heads and "
       "layers in any way; take {}, or a batch that is a multiple of {}",
       devices(question.cluster, question.gpus), question.job.run.global_batch,
       fmt::join(near, " or "), question.gpus);
}

}  // namespace trireme::planner
