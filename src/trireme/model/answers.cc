#include "trireme/model/answers.h"

#include <utility>

namespace trireme::model {
namespace {

constexpr std::int64_t kWide = 8;  // bytes of an fp64
// Numbers that ranks of a sequence exchange for each token: its code, its log-probability and the ratio.
constexpr std::int64_t kExchanged = 3;

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
  return {graph.input("answers", sizes.tokens * kWide),
          graph.input("reference", sizes.tokens * kWide)};
}

void add_preference_loss(Graph& graph, const Sizes& sizes, plan::ValueId losses,
                         const std::vector<plan::ValueId>& inputs) {
  const PerRank& rank = graph.rank();
  const std::int64_t exchanged = kExchanged * sizes.tokens * kWide, slopes = sizes.tokens * kWide;
  plan::Node node{.name = "preference",
                  .reads = {losses, inputs[0], inputs[1]},
                  .loss = true,
                  .work = {.forward = exchanged,
                           .passing = exchanged + slopes,
                           .backward = slopes,
                           .input = slopes}};
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
