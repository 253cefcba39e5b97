// How a model is spread over ranks.
#include <charconv>

#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {
namespace {

bool is_csv(std::string_view text) { return text.ends_with(".csv"); }

// The name of a schedule, or a file that has one.
Field schedule_field() {
  std::vector<std::pair<std::string_view, std::string>> names;
  for (const schedules::ScheduleInfo& schedule : schedules::all_schedules())
    names.emplace_back(schedule.name, schedule.name);
  Field field = choice(KEY(parallel.schedule),
                       "Pipeline schedule (compared in docs/pipeline.md), or a CSV file of actions "
                       "in the format of PyTorch's pipelining.",
                       names);
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
  return field;
}

constexpr std::string_view kHierarchical = "hierarchical:";
constexpr int kMostInner = 1 << 10;

// The ranks of "hierarchical:4", or 0.
int inner_ranks(std::string_view text) {
  if (!text.starts_with(kHierarchical)) return 0;
  text.remove_prefix(kHierarchical.size());
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && ranks >= 2 && ranks <= kMostInner ? ranks : 0;
}

// A method, where that of two levels may say how many ranks the inner one has.
Field context_field() {
  Field field = choice(
      KEY(parallel.context),
      "Context-parallel attention: ring (keys and values rotate), all_gather (keys and values are "
      "gathered), ulysses (all-to-all of heads and tokens) or hierarchical:N (ulysses within N "
      "neighbouring ranks, 2 if left out, a ring between them). Families other than decoders use "
      "all_gather.",
      {{"ring", ContextMethod::kRing},
       {"all_gather", ContextMethod::kAllGather},
       {"ulysses", ContextMethod::kUlysses},
       {"hierarchical", ContextMethod::kHierarchical}});
  field.other = fmt::format("hierarchical:N with N from 2 to {}", kMostInner);
  field.is_other = [](std::string_view text) { return inner_ranks(text) > 0; };
  field.get = [method = field.get](const Job& job) -> Value {
    const Parallel& parallel = job.parallel;
    if (parallel.context_inner == Parallel{}.context_inner ||
        parallel.context != ContextMethod::kHierarchical)
      return method(job);
    return fmt::format("{}{}", kHierarchical, parallel.context_inner);
  };
  field.set = [method = field.set](Job& job, const Value& value) {
    const int inner = inner_ranks(std::get<std::string>(value));
    method(job, inner > 0 ? Value(std::string("hierarchical")) : value);
    job.parallel.context_inner = inner > 0 ? inner : Parallel{}.context_inner;
  };
  return field;
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
