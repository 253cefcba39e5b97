// CountingGroup: a group that writes down what is asked of it; for tests and measurements.
#pragma once

#include <utility>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

// Passes every operation on to another group, which outlives it. Used by one thread. Operations of a group of one are
// not counted.
class CountingGroup : public Group {
 public:
  struct Entry {
    Verb verb;
    std::int64_t count;  // elements of the larger side
    DType type;
    bool operator==(const Entry&) const = default;
  };

  explicit CountingGroup(Group& inner)
      : Group(inner.name(), inner.rank(), inner.size()), inner_(inner) {}

  // Operations submitted since the last call.
  std::vector<Entry> take() { return std::exchange(entries_, {}); }
  // Bytes that this rank sent to others since the last call, as comm/collectives.h sends them.
  std::int64_t take_bytes_sent() { return std::exchange(bytes_sent_, 0); }

  void abort(const std::string& cause) override { inner_.abort(cause); }

 private:
  Ticket start(Operation op) override;
  std::int64_t elements_sent(const Operation& op) const;

  Group& inner_;
  std::vector<Entry> entries_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace trireme::comm
