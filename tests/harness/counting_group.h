// A group that writes down what is asked of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/group.h"

namespace trireme::harness {

class CountingGroup : public comm::Group {
 public:
  struct Entry {
    comm::Verb verb;
    std::int64_t count;  // elements of the larger side
    DType type;
    bool operator==(const Entry&) const = default;
  };

  explicit CountingGroup(comm::Group& group)
      : Group(group.name(), group.rank(), group.size()), group_(group) {}
  void abort(const std::string& cause) override { group_.abort(cause); }

  // What was submitted since the last call; operations of a group of one are not.
  std::vector<Entry> take() { return std::exchange(entries_, {}); }

 private:
  comm::Ticket start(comm::Operation op) override {
    entries_.push_back({op.verb, op.count(), op.type});
    const comm::ConstBuffer in(op.in, comm::total(op.in_counts), op.type);
    const comm::Buffer out{op.out, comm::total(op.out_counts), op.type};
    switch (op.verb) {
      case comm::Verb::kAllReduce: return group_.all_reduce(out, op.reduce);
      case comm::Verb::kReduceScatter:
        return group_.reduce_scatter_v(in, out, op.in_counts, op.reduce);
      case comm::Verb::kAllGather: return group_.all_gather_v(in, out, op.out_counts);
      case comm::Verb::kBarrier: return group_.barrier();
      default: fail(ErrorKind::kInternal, "{} is not counted", comm::name(op.verb));
    }
  }

  comm::Group& group_;
  std::vector<Entry> entries_;
};

}  // namespace trireme::harness
