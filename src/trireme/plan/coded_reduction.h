// CodedReduction: what a coded reduction sends and keeps; one answer for account, price and executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Ranks exchange codes of slices. Each rank decodes and adds its slice of all senders' sums, and sends the result to
// the others unless they step other parts.
struct CodedReduction {
  CodedSums sums;
  std::int64_t block = 0;       // elements coded together
  std::int64_t back_block = 0;  // in the result on its way back; divides `block`
  int ranks = 1;                // that exchange codes
  bool scatters = false;        // each rank keeps its slice only
  std::int64_t count = 0;       // elements of a sender's sum on this rank: whole blocks
  int own() const { return sums.senders / ranks; }  // senders of a rank
  std::vector<std::int64_t> slices() const;         // elements of each rank, whole blocks
  // Bytes of the residuals of this rank's senders, which a step replaces; 0 without residuals.
  std::int64_t residual_bytes() const;
  // Bytes of the codes of `elements` elements of one sender, and of the result on its way back (fp32 without codec).
  std::int64_t code_bytes(std::int64_t elements) const;
  std::int64_t back_bytes(std::int64_t elements) const;
  // Bytes in memory in addition to gradients: the codes that it sends and receives, then results as codes.
  std::int64_t buffers(int rank) const;
};
CodedReduction coded_reduction(const PlanSet& plan, UnitId unit);

// Senders whose sums a rank makes by itself: 1 where nothing is coded.
int senders_of_rank(const PlanSet& plan, UnitId unit);

// Bytes of the unit's residuals on a rank: 0 where there are none.
std::int64_t residual_bytes(const PlanSet& plan, UnitId unit);

// Micro-batches of each of them where there are several, else 0.
int sender_micro_batches(const PlanSet& plan, UnitId unit);

// The reason why sums of this recipe cannot be coded on this mesh, if there is one.
std::optional<std::string> mistake_in_coded(const mesh::Mesh& mesh, const Recipe& recipe);

}  // namespace trireme::plan
