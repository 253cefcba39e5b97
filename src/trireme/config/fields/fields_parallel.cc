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
      integer(KEY(parallel.pp), "Pipeline-parallel degree (stages).", from(1, 1 << 10)),
      choice(KEY(parallel.schedule), "Pipeline schedule (compared in docs/pipeline.md).",
             schedule_names()),
      text(KEY(parallel.schedule_file),
           "Pipeline schedule as a CSV file of actions in the format of PyTorch's pipelining, in "
           "place of parallel.schedule."),
      integer(KEY(parallel.virtual_stages),
              "Model chunks per pipeline rank. 0: the schedule's number (interleaved: 2).",
              from(0, 1 << 10)),
      text(KEY(parallel.stages),
           "Stage cuts: auto (by time and memory), or the nodes per stage, such as 4,3,3,4. "
           "Embedding and head count as one each."),
      text(KEY(parallel.costs),
           "File of measured node costs (node_costs.json of a run with run.trace) in place of "
           "operation counts."),
      number(KEY(parallel.activation_limit),
             "Activation memory per rank for schedules zb_auto and v_auto, relative to 1f1b's peak "
             "of parallel.pp micro-batches.",
             above(0, 1e6)),
      integer(KEY(parallel.dp_replicate), "Data-parallel replicas with the same shards.",
              from(1, 1 << 16)),
      integer(KEY(parallel.dp_shard),
              "Data-parallel ranks that parallel.zero shards over. -1: the remaining ranks.",
              or_else(-1, from(1, 1 << 16))),
      integer(KEY(parallel.cp), "Context-parallel degree (parts of a sequence).", from(1, 1 << 10)),
      integer(KEY(parallel.tp), "Tensor-parallel degree (parts of a layer).", from(1, 1 << 10)),
      boolean(
          KEY(parallel.sequence_parallel),
          "Sequence parallelism: tp ranks also split the rows of norms, residuals and dropout."),
      choice(KEY(parallel.context),
             "Context-parallel attention. ring: keys and values rotate. all_gather: keys and "
             "values are gathered. ulysses: all-to-all of heads and tokens. hierarchical: ulysses "
             "within parallel.context_inner ranks, a ring between them.",
             {{"ring", ContextMethod::kRing},
              {"all_gather", ContextMethod::kAllGather},
              {"ulysses", ContextMethod::kUlysses},
              {"hierarchical", ContextMethod::kHierarchical}}),
      integer(KEY(parallel.context_inner),
              "Neighbouring cp ranks in an all-to-all of parallel.context=hierarchical.",
              from(2, 1 << 10)),
      integer(KEY(parallel.zero),
              "ZeRO stage over dp_shard and cp ranks: 0 (nothing is sharded), 1 (optimizer "
              "states), 2 (and gradients) or 3 (and parameters; HSDP with dp_replicate > 1).",
              from(0, 3)),
      number(KEY(parallel.comm_timeout_s),
             "Timeout of a rank that waits for a silent peer, in seconds.", above(0, 86400)),
  };
}

}  // namespace trireme::config
