// How a model is spread over ranks.
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_lists.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {
namespace {

bool is_csv(std::string_view text) { return text.ends_with(".csv"); }

// The name of a schedule, or a file that has one.
Field schedule_field() {
  Field field =
      form(Field::Kind::kChoice, "parallel.schedule",
           "Pipeline schedule (compared in docs/pipeline.md), or a CSV file of actions in the "
           "format of PyTorch's pipelining. LIMIT: activation memory per rank, relative to 1f1b's "
           "peak of parallel.pp micro-batches (1 if left out).");
  for (const schedules::ScheduleInfo& schedule : schedules::all_schedules())
    field.choices.emplace_back(schedule.name);
  field.other = "a file that ends in .csv";
  field.is_other = is_csv;
  field.get = [](const Job& job) -> Value {
    const Parallel& parallel = job.parallel;
    return parallel.schedule_file.empty() ? parallel.schedule : parallel.schedule_file;
  };
  field.set = [](Job& job, const Value& value) {
    const auto& text = std::get<std::string>(value);
    job.parallel.schedule = is_csv(text) ? Parallel{}.schedule : text;
    job.parallel.schedule_file = is_csv(text) ? text : "";
  };
  std::vector<std::string> limited;
  for (const schedules::ScheduleInfo& schedule : schedules::all_schedules())
    if (schedule.limited) limited.emplace_back(schedule.name);
  return with_suffix(std::move(field), std::move(limited), "LIMIT",
                     MEMBER(parallel.activation_limit), above(0, 1e6));
}

// The inner of two levels may be given.
Field context_field() {
  return with_suffix(
      choice(KEY(parallel.context),
             "Context-parallel attention: ring (keys and values rotate), all_gather (keys and "
             "values are gathered), ulysses (all-to-all of heads and tokens) or hierarchical:N "
             "(ulysses within N neighbouring ranks, 2 if left out, a ring between them). Families "
             "other than decoders use all_gather.",
             {{"ring", ContextMethod::kRing},
              {"all_gather", ContextMethod::kAllGather},
              {"ulysses", ContextMethod::kUlysses},
              {"hierarchical", ContextMethod::kHierarchical}}),
      {"hierarchical"}, "N", MEMBER(parallel.context_inner), from(2, 1 << 10));
}

}  // namespace

std::vector<Field> parallel_fields() {
  return {
      integer(KEY(parallel.pp), "Pipeline-parallel degree (stages).", from(1, 1 << 10)),
      schedule_field(),
      integer(KEY(parallel.virtual_stages),
              "Model chunks per pipeline rank. 0: the schedule's number (interleaved: 2).",
              from(0, 1 << 10)),
      text(KEY(parallel.stages),
           "Stage cuts: auto (by time and memory), or the nodes per stage, such as 4,3,3,4. "
           "Embedding and head count as one each."),
      text(KEY(parallel.costs),
           "File of measured node costs (node_costs.json of a run with run.trace) in place of "
           "operation counts."),
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
      context_field(),
      integer(KEY(parallel.zero),
              "ZeRO stage over dp_shard and cp ranks: 0 (nothing is sharded), 1 (optimizer "
              "states), 2 (and gradients) or 3 (and parameters; HSDP with dp_replicate > 1).",
              from(0, 3)),
      number(KEY(parallel.comm_timeout_s),
             "Timeout of a rank that waits for a silent peer, in seconds.", above(0, 86400)),
  };
}

}  // namespace trireme::config
