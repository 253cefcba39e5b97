// LiveValues: the values of micro-batches, and their gradients, that somebody on a rank still holds.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/ledger.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

class LiveValues {
 public:
  using OfBatch = std::pair<int, int>;     // a value or node, of a micro-batch
  using Copy = std::tuple<int, int, int>;  // of a value of a micro-batch, from 1

  // Program and ledger outlive it.
  LiveValues(const Program& program, int micro_batches, Ledger& ledger)
      : program_(program), micro_batches_(micro_batches), ledger_(ledger) {}

  // A value that a segment writes again is another copy: somebody may still keep the first.
  Copy copy(ValueId value, int mb) { return {value, mb, copies_[{value, mb}]}; }
  void put(ValueId value, int mb) {
    ++copies_[{value, mb}];
    holders_[copy(value, mb)] = 1;
    ledger_.add(MemoryKind::kActivations, bytes(value));
  }
  void hold(const Copy& copy) { ++holders_[copy]; }
  // Whether that was the last holder.
  bool let_go(const Copy& copy) { return --holders_[copy] == 0; }
  void release(const Copy& copy) {
    if (let_go(copy)) ledger_.drop_after(MemoryKind::kActivations, bytes(std::get<0>(copy)));
  }

  // Keeps a node's inputs until its backward.
  void keep_inputs(NodeId node, int mb) {
    std::vector<Copy>& inputs = kept_inputs_[{node, mb}];
    const Node& reader = program_.nodes[node];
    for (ValueId value : reader.reads)
      for (int batch : batches(reader, mb, micro_batches_)) {
        inputs.push_back(copy(value, batch));
        hold(inputs.back());
      }
  }
  void release_inputs(NodeId node, int mb) {
    const auto inputs = kept_inputs_.extract(OfBatch{node, mb});
    for (const Copy& input : inputs.mapped()) release(input);
  }

  void open_gradient(ValueId value, int mb) {
    if (gradients_.insert({value, mb}).second) ledger_.add(MemoryKind::kActivations, bytes(value));
  }
  void drop_gradient(ValueId value, int mb) {
    if (gradients_.erase({value, mb}) > 0)
      ledger_.drop_after(MemoryKind::kActivations, bytes(value));
  }

 private:
  std::int64_t bytes(ValueId value) const { return program_.values[value].bytes; }

  const Program& program_;
  int micro_batches_;
  Ledger& ledger_;
  std::map<OfBatch, int> copies_;  // so far
  std::map<Copy, int> holders_;    // its place among the values, and kept forwards
  std::map<OfBatch, std::vector<Copy>> kept_inputs_;  // of a node whose forward is kept
  std::set<OfBatch> gradients_;
};

}  // namespace trireme::plan
