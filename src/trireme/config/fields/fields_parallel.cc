// How a model is spread over ranks.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {
namespace {

std::vector<std::pair<std::string_view, std::string>> schedule_names() {
  std::vector<std::pair<std::string_view, std::string>> names;
  for (const schedules::ScheduleInfo& schedule : schedules::all_schedules())
    names.emplace_back(schedule.name, schedule.name);
  return names;
}

}  // namespace

std::vector<Field> parallel_fields() {
  return {
      integer(KEY(parallel.pp), "Pipeline stages.", from(1, 1 << 10)),
      choice(KEY(parallel.schedule),
             "What each pipeline rank computes when (docs/pipeline.md compares them).",
             schedule_names()),
      text(KEY(parallel.schedule_file),
           "A schedule as a CSV of actions, in the form of PyTorch's pipelining, instead of a "
           "named one."),
      integer(KEY(parallel.virtual_stages),
              "Chunks of the model on each pipeline rank; 0: as many as the schedule has "
              "(interleaved 2).",
              from(0, 1 << 10)),
      text(KEY(parallel.stages),
           "Where the model is cut: auto (by cost and memory), or the nodes of each stage in its "
           "order, such as 4,3,3,4 (embedding and head count as one each)."),
      text(KEY(parallel.costs),
           "A node_costs.json of an earlier run (run.trace): cuts, searched schedules and "
           "forecasts then go by these seconds instead of by counted operations."),
      number(KEY(parallel.activation_limit),
             "Activations that zb_auto and v_auto may keep on a rank, relative to 1f1b's peak of "
             "parallel.pp micro-batches (v_auto takes it in steps of half a micro-batch).",
             above(0, 1e6)),
      number(KEY(parallel.transfer),
             "What sending an activation takes, in times a stage's forward: schedules that are "
             "searched take it into account.",
             from(0, 1e6)),
      integer(KEY(parallel.dp_replicate), "Data-parallel ranks that hold the same shards.",
              from(1, 1 << 16)),
      integer(KEY(parallel.dp_shard),
              "Data-parallel ranks over which zero shards; -1: what is left of the world.",
              or_else(-1, from(1, 1 << 16))),
      integer(KEY(parallel.cp), "Context-parallel ranks: parts of one sequence.", from(1, 1 << 10)),
      integer(KEY(parallel.tp), "Tensor-parallel ranks: parts of one layer.", from(1, 1 << 10)),
      boolean(KEY(parallel.sequence_parallel),
              "tp ranks also share out the rows of norms, residuals and dropout."),
      choice(KEY(parallel.context),
             "How cp ranks attend: ring (keys and values travel), all_gather (keys and values are "
             "gathered), ulysses (heads are exchanged for tokens), hierarchical (heads within "
             "context_inner ranks, a ring of those groups); families other than decoders: "
             "all_gather.",
             {{"ring", ContextMethod::kRing},
              {"all_gather", ContextMethod::kAllGather},
              {"ulysses", ContextMethod::kUlysses},
              {"hierarchical", ContextMethod::kHierarchical}}),
      integer(KEY(parallel.context_inner),
              "Neighbouring cp ranks that exchange heads (context hierarchical).",
              from(2, 1 << 10)),
      integer(KEY(parallel.zero),
              "What dp_shard (and cp) ranks share out: 0 nothing, 1 optimizer states, 2 also "
              "gradients, 3 also parameters; 3 with dp_replicate > 1 is HSDP.",
              from(0, 3)),
      integer(KEY(parallel.prefetch), "Units gathered ahead of their use (zero 3).",
              from(0, 1 << 10)),
      number(KEY(parallel.comm_timeout_s),
             "Seconds after which a rank that waits for a silent peer gives up.", above(0, 86400)),
  };
}

}  // namespace trireme::config
