#include "trireme/model/spread.h"

#include "trireme/base/error.h"

namespace trireme::model {
namespace {

using plan::Exchange;

plan::NodeExchange rows_over_cp(Exchange kind, std::int64_t bytes, int forward, int backward) {
  return {.kind = kind,
          .axes = mesh::Axis::kCp,
          .bytes = bytes,
          .forward = forward,
          .backward = backward};
}

// The node reads all rows of a value: each rank says how many it has, and gives them.
void gather(plan::Node& node, const plan::Value& value, bool reached, const PerRank& rank) {
  constexpr std::int64_t kCount = 8;
  node.exchanges.push_back(rows_over_cp(Exchange::kAllGather, rank.spread * kCount, 1, 0));
  node.exchanges.push_back(rows_over_cp(Exchange::kAllGather, value.bytes, 1, 0));
  if (!node.no_grad && reached) {
    node.exchanges.push_back(rows_over_cp(Exchange::kReduceScatter, value.bytes, 0, 1));
    node.saved_bytes += value.bytes;
  }
  for (std::int64_t* bytes :
       {&node.work.forward, &node.work.passing, &node.work.backward, &node.work.input})
    *bytes += value.bytes;
}

void share(plan::Value& value, const PerRank& rank) {
  std::int64_t& rows = value.shape[value.shape.size() - 2];
  if (rows < rank.spread)
    fail(ErrorKind::kUsage,
         "parallel.cp={}: {} ranks share {} rows of {}; set parallel.cp={} or less", rank.spread,
         rank.spread, rows, value.name, rows);
  const bool announced = value.varies && value.shape.size() == 2;
  if (rank.staged && !announced && rows % rank.spread != 0)
    fail(ErrorKind::kUsage,
         "parallel.cp={} with parallel.pp above 1: ranks have different numbers of the {} rows of "
         "{}, which stages cannot exchange; choose a cp that divides {}, or parallel.pp=1",
         rank.spread, rows, value.name, rows);
  const std::int64_t own = (rows + rank.spread - 1) / rank.spread;
  value.bytes = value.bytes / rows * own;
  rows = own;
}

}  // namespace

std::vector<bool> spread_values(const plan::Program& program, const std::vector<bool>& row_wise) {
  std::vector<bool> spread(program.values.size());
  for (std::size_t node = 0; node < program.nodes.size(); ++node)
    if (row_wise[node])
      for (const plan::ValueId id :
           {program.nodes[node].reads.front(), program.nodes[node].writes.front()})
        spread[id] = true;
  return spread;
}

void share_rows(plan::Program& program, const std::vector<bool>& row_wise,
                const std::vector<bool>& reached, const PerRank& rank) {
  if (rank.spread == 1) return;
  const std::vector<bool> spread = spread_values(program, row_wise);
  for (std::size_t node = 0; node < program.nodes.size(); ++node) {
    if (row_wise[node]) continue;
    for (const plan::ValueId id : program.nodes[node].reads) {
      const auto value = static_cast<std::size_t>(id);
      if (spread[value]) gather(program.nodes[node], program.values[value], reached[value], rank);
    }
  }
  for (std::size_t value = 0; value < spread.size(); ++value)
    if (spread[value]) share(program.values[value], rank);
}

}  // namespace trireme::model
