// Pattern: how sums and slices travel among the participants of a collective, by one algorithm.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trireme/comm/algorithm/algorithm.h"
#include "trireme/comm/exchange.h"

namespace trireme::comm {

// This one exchanges directly; others replace what they do otherwise. Sums of all but the ring have the bits of the
// canonical tree. Partial sums travel as they are added, so that bf16 has twice the width from the second message on.
// Functions block, and throw Lost, Mismatch or Error.
class Pattern {
 public:
  // `ranks`: the world ranks that take part; `rank`: this one's position.
  Pattern(Transport& transport, const std::vector<int>& ranks, int rank)
      : all_(transport, ranks, rank) {}
  virtual ~Pattern() = default;

  // Sets the operation of the next messages.
  virtual void begin(const Stamp& stamp) { all_.begin(stamp); }

  // out = the reduction of everybody's slice of this rank; `data` has one for each.
  virtual void add(const std::byte* data, const Slices& slices, const Reduction& reduction,
                   std::byte* out);
  // Brings every rank's slice of `data` to all.
  virtual void gather(std::byte* data, const Slices& slices);
  // data = the reduction of everybody's `data`, which is large.
  virtual void add_to_all(std::byte* data, const Slices& slices, const Reduction& reduction);
  // out = the reduction of everybody's `data`: as few messages as possible. They do not overlap.
  virtual void add_whole(const std::byte* data, std::size_t bytes, const Reduction& reduction,
                         std::byte* out);
  // Whether add_to_all() of a large buffer is add_whole(), not add() and gather().
  virtual bool keeps_whole() const { return false; }
  // Whether gather() is one round of messages, which all_ may start before others.
  virtual bool gathers_directly() const { return true; }

  // Broadcasts, barriers, single messages.
  Exchange& direct() { return all_; }
  std::size_t size() const { return all_.size(); }
  std::size_t own() const { return all_.own(); }

 protected:
  void add_and_gather(std::byte* data, const Slices& slices, const Reduction& reduction) {
    add(data, slices, reduction, data + slices[own()].begin);
    gather(data, slices);
  }

 private:
  Exchange all_;
};

// As Choice says, which the number of ranks allows (algorithm::refusal). The transport reaches the servers as well.
std::unique_ptr<Pattern> make_pattern(const algorithm::Choice& choice, Transport& transport,
                                      const std::vector<int>& ranks, int rank);

}  // namespace trireme::comm
