#include "trireme/model/answers.h"

#include <utility>

namespace trireme::model {
namespace {

constexpr std::int64_t kWide = 8;  // bytes of an fp64

}  // namespace

plan::Value token_losses(const Sizes& sizes, const PerRank& rank) {
  plan::Value value{.name = kTokenLosses,
                    .bytes = sizes.tokens * sizes.statistic,
                    .shape = {rank.micro_batch, sizes.tokens / rank.micro_batch},
                    .whole = rank.tp > 1};
  if (size_of(rank.compute) < size_of(DType::kF32)) value.type = DType::kF32;
  return value;
}

std::vector<plan::ValueId> preference_inputs(Graph& graph, const Sizes& sizes) {
  std::vector<plan::ValueId> inputs;
  for (const char* name : {"answers", "reference"})
    inputs.push_back(graph.input(name, sizes.tokens * kWide));
  if (!graph.rank().rewards) return inputs;
  for (const char* name : {"old", "advantages", "rewards"})
    inputs.push_back(graph.input(name, sizes.tokens * kWide));
  return inputs;
}

void add_preference_loss(Graph& graph, const Sizes& sizes, plan::ValueId losses,
                         const std::vector<plan::ValueId>& inputs) {
  const PerRank& rank = graph.rank();
  // Ranks of a sequence exchange what they have of each token: its log-probability and the inputs.
  const std::int64_t exchanged = (1 + std::ssize(inputs)) * sizes.tokens * kWide,
                     slopes = sizes.tokens * kWide;
  plan::Node node{.name = "preference",
                  .reads = {losses},
                  .loss = true,
                  .work = {.forward = exchanged,
                           .passing = exchanged + slopes,
                           .backward = slopes,
                           .input = slopes}};
  node.reads.insert(node.reads.end(), inputs.begin(), inputs.end());
  if (rank.cp > 1) {
    node.work.passing = exchanged + rank.cp * exchanged;
    node.work.forward = node.work.passing - slopes;
    node.exchanges = {{.kind = plan::Exchange::kAllGather,
                       .axes = mesh::Axis::kCp,
                       .bytes = rank.cp * exchanged,
                       .forward = 1}};
  }
  graph.node(std::move(node), {.saved_bytes = slopes, .backward_flops = 0}, {},
             {{.name = "loss", .bytes = kWide}});
}

}  // namespace trireme::model
