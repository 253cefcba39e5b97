// Screen: cost of a layout by closed forms, from the prices of one block, the embedding and the head. It needs no
// program of all layers, no schedule and no plan. Accurate within some per cent; microseconds a layout.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "trireme/planner/cost/layout.h"
#include "trireme/planner/cost/stage_time.h"
#include "trireme/planner/hardware/network.h"
#include "trireme/planner/search/report/question.h"

namespace trireme::planner {

struct Costs {
  double seconds = 0;  // of a step
  double bytes = 0;    // bytes of the rank that needs most, including everything apart from tensors
  double host = 0;     // bytes of a rank's that wait in host memory
  double offload = 0;  // of the seconds, for what leaves memory and comes back
};

// A node on one rank and one micro-batch.
struct NodeCosts {
  double forward = 0, input = 0, weight = 0;  // seconds, including exchanges and recomputation
  double kept = 0;       // bytes from forward to backward, what it reads among them
  double waiting = 0;    // bytes from the input half of a backward to the weight half
  double transient = 0;  // additional bytes while it runs
  double numel = 0;      // of its unit
  double trained = 0;    // of that
  double flops = 0;      // by which stages are cut
};

// Number of blocks of the stages, by the rank that runs them.
struct Cut {
  double first = 0, most = 0,
         last = 0;        // on the ranks with the embedding, with most blocks, with the head
  bool together = false;  // embedding and head on one rank
};

// Shared prices of layouts with one tp, cp, sequence parallelism, micro-batch and recomputation. `embed` is the first
// node, `head` what comes after the last block, and `block` the mean of those between.
struct Parts {
  NodeCosts embed, block, head;
  double layers = 0;
  double boundary = 0;  // bytes between stages
  double shared = 0;    // elements of the head's that are the embedding's
  double averaged = 0;  // elements that follow others by averages
  mutable std::map<std::tuple<int, int, bool>, Cut> cuts{};
};

// Earlier stages, which keep more, have fewer; remembered in the parts.
const Cut& cut_of(const Parts& parts, const Layout& layout);

// Seconds of what data-parallel ranks exchange, of an element.
struct Traffic {
  double gather = 0, scatter = 0, all_reduce = 0;        // of one byte
  double gather_s = 0, scatter_s = 0, all_reduce_s = 0;  // of a message
  double replicas = 0, replicas_s = 0;                   // of a shard among replicas
  double channels = 0, replica_channels = 0;             // of the processor, as Network has it
};

// Number of nodes of a resolved job's program.
std::int64_t nodes_of(const config::Job& job);

class Screen {
 public:
  // The question is completed.
  explicit Screen(const Question& question);

  Costs price(const Layout& layout) const;

  // For loops over many layouts: what the inner ones have in common.
  const Parts& parts(const Layout& layout) const;
  const Traffic& traffic(const Layout& layout) const;
  Costs price(const Layout& layout, const Parts& parts, const Traffic& traffic) const;

  const config::Job& alone() const { return alone_; }
  std::int64_t nodes() const { return nodes_; }  // of the program
  std::int64_t micro_batches(const Layout& layout) const {
    return alone_.run.global_batch / (std::int64_t{layout.micro_batch} * layout.dp());
  }

 private:
  struct Stage;
  struct Offloaded;
  struct StepTerms;
  config::Job job_of(const Layout& layout) const;
  Parts make_parts(const Layout& layout) const;
  Traffic make_traffic(const Layout& layout) const;
  double transfer(const Layout& layout, double bytes) const;
  Stage stage(const Layout& layout, const Parts& parts, double blocks, bool embed, bool head) const;
  Stage longest(const Layout& layout, const Parts& parts, const Cut& cut) const;
  StageTime time_of(const Layout& layout, const Stage& stage, const Traffic& traffic) const;
  void price_turn(const Layout& layout, const Stage& slow, const StageTime& time,
                  StepTerms& terms) const;
  void price_pipeline(const Layout& layout, const Parts& parts, const Stage& slow,
                      StepTerms& terms) const;
  StepTerms terms(const Layout& layout, const Parts& parts, const Traffic& traffic,
                  const Cut& cut) const;
  double memory(const Layout& layout, const Parts& parts, const Cut& cut,
                Offloaded& offloaded) const;
  double bytes_of(const Layout& layout, const Parts& parts, const Stage& stage, double kept_mb,
                  double waiting_mb, Offloaded& offloaded) const;

  void count_matrices();
  const config::Offload& offload_of(const Layout& layout) const {
    return offloads_[static_cast<std::size_t>(layout.away)];
  }
  double seconds_out(Tier tier, double bytes) const;

  const Question& question_;
  config::Job alone_;
  std::int64_t nodes_ = 0;
  std::array<config::Offload, 4> offloads_;  // by Away
  MemoryConstants constants_;
  double param_ = 0, states_ = 0, grad_ = 0, reduce_ = 0;  // bytes of an element
  double matrix_flops_ = 0;          // of updates by matrix, of an element that trains
  std::array<double, 4> masters_{};  // bytes of a master copy per parameter, by Away
  mutable std::map<std::tuple<int, int, bool, int, Recomputed>, std::unique_ptr<Parts>> parts_;
  mutable std::map<std::array<int, 4>, Traffic> traffic_;
  mutable std::map<int, std::array<double, 2>> transfers_;
};

}  // namespace trireme::planner
