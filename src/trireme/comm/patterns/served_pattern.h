// ServedPattern: large sums of all ranks by reduction servers (reduction_server.h).
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/patterns/pattern.h"

namespace trireme::comm {

// Each server gets a slice of every rank's buffer and puts the sum in its place. Small sums, and those to slices, go
// directly.
class ServedPattern : public Pattern {
 public:
  ServedPattern(Transport& transport, const std::vector<int>& ranks, int rank,
                std::vector<algorithm::Server> servers);

  void begin(const Stamp& stamp) override {
    Pattern::begin(stamp);
    stamp_ = stamp;
  }
  bool keeps_whole() const override { return true; }
  void add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction) override;
  void add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                 std::byte* out) override;

 private:
  void exchange(std::byte* data, std::size_t count, DType type);

  std::vector<algorithm::Server> servers_;
  Exchange to_servers_;
  Stamp stamp_;
  std::vector<std::byte> sums_;
};

}  // namespace trireme::comm
