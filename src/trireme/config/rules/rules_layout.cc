// How a model is spread over ranks, and what their memory holds.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

// Ranks for each shard.
std::int64_t ranks_of_shard(const Parallel& parallel) {
  return std::int64_t{parallel.pp} * parallel.dp_replicate * parallel.cp * parallel.tp;
}
void resolve_mesh(Job& job, const Given& given) {
  const std::int64_t others = ranks_of_shard(job.parallel);
  if (job.parallel.dp_shard == -1 && given.world % others == 0)
    job.parallel.dp_shard = static_cast<int>(given.world / others);
}

void check_mesh(const Job& job, const Given& given) {
  const Parallel& parallel = job.parallel;
  const int world = given.world;
  const std::int64_t others = ranks_of_shard(parallel);
  const std::string product =
      fmt::format("pp={} x dp_replicate={} x dp_shard={} x cp={} x tp={}", parallel.pp,
                  parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp);
  if (parallel.dp_shard == -1)
    fail(ErrorKind::kUsage,
         "parallel: {} does not fit a world of {}: {} ranks without dp_shard do not divide it; "
         "start a multiple of {} ranks or lower a degree",
         product, world, others, others);
  const std::int64_t ranks = others * parallel.dp_shard;
  if (ranks == world) return;
  const std::string shard =
      world % others == 0
          ? fmt::format("set parallel.dp_shard={} (or -1: the remaining ranks)", world / others)
          : std::string("lower a degree");
  fail(ErrorKind::kUsage, "parallel: {} = {}, but the world has {}; {}, or start {}", product,
       counted(ranks, "rank"), world, shard, counted(ranks, "rank"));
}

bool rows_in_order(const Job& job) { return job.parallel.cp > 1 && !info(job).zigzag; }
void resolve_context(Job& job, const Given&) {
  if (rows_in_order(job) && job.parallel.context == ContextMethod::kRing)
    job.parallel.context = ContextMethod::kAllGather;
}

bool is_chain(const Job& job) { return info(job).chain; }
bool cuts_rows(const Job& job) { return is_chain(job) && job.parallel.cp > 1; }
bool has_inner_ranks(const Job& job) {
  return cuts_rows(job) && job.parallel.context == ContextMethod::kHierarchical;
}

void check_inner_ranks(const Job& job) {
  const int ranks = job.parallel.cp, inner = job.parallel.context_inner;
  if (ranks % inner != 0 || ranks == inner)
    fail(ErrorKind::kUsage,
         "parallel.context=hierarchical:{}: it must divide parallel.cp={} into two or more groups; "
         "set parallel.context=ulysses (one group) or ring, or parallel.cp={}",
         inner, ranks, std::max(2, (ranks + inner - 1) / inner) * inner);
}

constexpr std::string_view kOneHead = "a rank needs a head for each that it exchanges with";

Rule for_tp(std::string_view id, const char* key) {
  return {id, shared_by_tp(key), [key](const Job& job) { return uses(job.model.family, key); }};
}

}  // namespace

std::vector<Rule> layout_rules() {
  const Number tokens("{model.seq_len} / {parallel.cp} = {}",
                      [](const Job&job) { return job.model.seq_len / job.parallel.cp; }),
      chunks("2 x {parallel.cp} = {}", [](const Job&job) { return 2 * job.parallel.cp; }),
      heads("{model.heads} / {parallel.tp} = {}",
            [](const Job&job) { return job.model.heads / job.parallel.tp; }),
      inner("parallel.context=hierarchical:{}",
            [](const Job&job) { return job.parallel.context_inner; }),
      islands("islands:{} of network.outer", [](const Job&job) {
        return outer_settings(job.network).value_or(OuterSettings()).islands;
      });
  return {
      {"islands",
       multiple_of("parallel.dp_replicate", islands,
                   "which have equally many replicas, with parallel.dp_shard for shards in each"),
       nullptr, [](Job& job, const Given&) { resolve_islands(job); }},
      {.id = "mesh", .fill = resolve_mesh, .fits = check_mesh},
      {"rows-in-order",
       refused("parallel.context=ulysses|hierarchical",
               "{model.family} has rows in order on cp ranks, which gather keys and values",
               "set parallel.context=all_gather, or leave it out"),
       rows_in_order, resolve_context},
      for_tp("tp-heads", "model.heads"),
      for_tp("tp-tower-heads", "vision.heads"),
      for_tp("tp-ffn", "model.ffn"),
      for_tp("tp-tower-ffn", "vision.ffn"),
      for_tp("tp-vocab", "model.vocab"),
      {"zigzag", multiple_of("model.seq_len", chunks, "the chunks of the zigzag"), cuts_rows},
      {"tp-tokens",
       at_most("parallel.tp", tokens, "{parallel.sequence_parallel} gives each rank a token",
               "set parallel.sequence_parallel=false"),
       [](const Job& job) {
         return is_chain(job) && job.parallel.sequence_parallel && job.parallel.tp > 1;
       }},
      {"inner-ranks", check_inner_ranks, has_inner_ranks},
      {"inner-heads", at_most(inner, heads, kOneHead, "set parallel.context=ring"),
       has_inner_ranks},
      {"ulysses-heads", at_most("parallel.cp", heads, kOneHead, "set parallel.context=ring"),
       [](const Job& job) {
         return cuts_rows(job) && job.parallel.context == ContextMethod::kUlysses;
       }},
      {"schedule-file", refused("parallel.virtual_stages", "{parallel.schedule} has the schedule"),
       [](const Job& job) { return !job.parallel.schedule_file.empty(); }},
      {"recompute-parts", only_with("recompute.parts", "recompute.policy=selective")},
      {"recompute-memory", only_with("recompute.memory", "recompute.policy=auto")},
      {"recompute-auto",
       refused("recompute.policy=auto with recompute.memory=0", "it needs the budget of a rank",
               "set recompute.memory, or another policy")},
      {"recompute-nodes", refused("recompute.nodes with recompute.policy=none",
                                  "no node is recomputed", "choose a policy, or leave it out")},
      {"offload-path", refused("offload.path", "nothing is offloaded to nvme"),
       [](const Job& job) { return !job.offload.uses(Tier::kNvme); }},
  };
}

}  // namespace trireme::config
