// CountingGroup: what a rank asks of a group and sends through it; for tests and measurements.
#pragma once

#include <map>

#include "trireme/comm/group.h"

namespace trireme::comm {

struct Traffic {
  std::int64_t operations = 0;
  std::int64_t bytes_sent = 0;  // to other ranks, as comm/collectives.h sends them
  bool operator==(const Traffic&) const = default;
};

// Passes every operation on to another group, which outlives it. Used by one thread.
class CountingGroup : public Group {
 public:
  explicit CountingGroup(Group& inner)
      : Group(inner.name(), inner.rank(), inner.size()), inner_(inner) {}

  // Since the beginning or the last clear().
  Traffic of(Verb verb) const;
  Traffic all() const;
  void clear() { traffic_.clear(); }
  void abort(const std::string& cause) override { inner_.abort(cause); }

 private:
  Ticket start(Operation op) override;
  std::int64_t elements_sent(const Operation& op) const;

  Group& inner_;
  std::map<Verb, Traffic> traffic_;
};

}  // namespace trireme::comm
