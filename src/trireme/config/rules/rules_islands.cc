// Islands, which merge weights in place of gradients.
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

OuterSettings outer(const Job& job) {
  return outer_settings(job.network).value_or(OuterSettings());
}
bool codes_weights(const Job& job) { return !outer(job).codec.empty(); }

Rule for_islands(std::string_view id, std::initializer_list<std::string_view> needed,
                 std::string_view reason = "") {
  return {id, needs("network.outer", needed, reason)};
}

}  // namespace

std::vector<Rule> island_rules() {
  return {
      {"islands-loss",
       refused("network.outer", "the loss of {model.family} compares the samples of all islands",
               "train without islands"),
       [](const Job& job) { return outer(job).islands > 1 && couples_batch(job); }},
      {"islands-spikes",
       refused("run.spikes with network.outer", "a return to a checkpoint would repeat merges",
               "leave run.spikes out, or set network.outer=none")},
      for_islands("islands-codec", {"network.codec=none"}, "it codes sums over all replicas"),
      for_islands("islands-states", {"optim.from_weights=false"},
                  "its states are not those of islands"),
      for_islands("islands-trainable", {"checkpoint.trainable_only=false"}),
      for_islands("islands-offload", {"offload.optimizer=none", "offload.params=none"},
                  "merged weights stay in memory"),
      for_islands("islands-master", {"precision.master=fp32|fp64"}),
      {"islands-direction",
       needs("network.outer", {"parallel.tp=1"}, "it cuts layers whose norms merge:direction needs",
             "merge:mean"),
       [](const Job& job) { return outer(job).direction; }},
      {"islands-coded",
       needs("network.outer", {"precision.master=fp32", "run.device=cpu"},
             "codecs of weights take fp32 on CPUs", "leave its codec out"),
       codes_weights},
  };
}

}  // namespace trireme::config
