// Values: the activations of a step in flight, their gradients, and what forwards keep for backwards.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>  // edge.h alone is not complete from 2.14 on

#include <map>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/ops/weight_gradients.h"
#include "trireme/plan/program.h"

namespace trireme::exec {

// One forward's way back: its detached inputs, and for each output the place in the autograd graph.
// Edges instead of outputs: the outputs' memory is free at once.
struct Saved {
  std::vector<std::vector<at::Tensor>> inputs;  // of each value read, one a micro-batch
  ops::WeightGradientsPtr weights;              // what its backward gives to parameters
  std::vector<torch::autograd::Edge> outputs;
  at::TensorOptions loss;  // of a loss node's scalar
};

// Tables keyed by (id, micro-batch). Take moves out; a missing entry is a bug that validation excludes.
template <typename T>
class Table {
 public:
  T& put(int id, int mb, T entry) { return entries_[{id, mb}] = std::move(entry); }
  const T& get(int id, int mb) const { return find(entries_, id, mb)->second; }
  T take(int id, int mb) {
    const auto found = find(entries_, id, mb);
    T entry = std::move(found->second);
    entries_.erase(found);
    return entry;
  }
  T* seek(int id, int mb) {
    const auto found = entries_.find({id, mb});
    return found == entries_.end() ? nullptr : &found->second;
  }
  void drop(int id, int mb) { entries_.erase({id, mb}); }
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  template <typename Map>
  static auto find(Map& entries, int id, int mb) {
    const auto found = entries.find({id, mb});
    TRIREME_CHECK(found != entries.end(), "nothing is stored for id {} micro-batch {}", id, mb);
    return found;
  }
  std::map<std::pair<int, int>, T> entries_;
};

struct Values {
  Table<at::Tensor> activations;          // by ValueId
  Table<at::Tensor> gradients;            // by ValueId
  Table<Saved> saved;                     // by NodeId
  Table<ops::WeightGradientsPtr> halves;  // by NodeId: what an input half left

  void clear() {
    activations.clear();
    gradients.clear();
    saved.clear();
    halves.clear();
  }
};

}  // namespace trireme::exec
