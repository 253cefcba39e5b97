// CodedReduction: what a coded reduction sends and keeps; one answer for account, price and executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Ranks exchange codes of slices. Each rank decodes and adds its slice of all senders' sums, and sends the result to
// the others unless they step other parts. Where every micro-batch is reduced over shards, its senders are blocks of
// neighbours, of which each rank adds a column first: the shards of the ranks with its place in all blocks.
struct CodedReduction {
  CodedSums sums;
  std::int64_t block = 0;       // elements coded together
  std::int64_t back_block = 0;  // in the result on its way back; divides `block`
  int ranks = 1;                // that exchange codes
  int within = 0;               // neighbours that are one sender of a micro-batch; 0: other senders
  bool scatters = false;        // each rank keeps its slice only
  std::int64_t count = 0;       // elements of a sender's sum on this rank: whole blocks
  std::int64_t gap = 0;         // elements of the unit between its slices
  // Codes of integers: the algorithm between hosts adds those of all senders. Else each rank gets the codes of its slice.
  bool adds_on_way = false;
  int own() const { return sums.senders / ranks; }          // senders of a rank
  int residuals() const { return sums.residuals / ranks; }  // which its senders use in turn
  std::vector<std::int64_t> slices() const;                 // elements of each rank, whole blocks
  // Bytes of the residuals of this rank's senders, which a step replaces; 0 without residuals.
  std::int64_t residual_bytes() const;
  // Whether codes are integers: a rank sends the sum of those of its senders.
  bool integers() const { return codec::is_integer(sums.codec); }
  // Whether every rank gets the whole sum as integers.
  bool returns_integers() const { return integers() && !scatters && !sums.back; }
  int sent_bits() const;           // of what a rank sends
  DType sum_type() const;          // of that of all senders: uint8 (for int8), int16 or int32
  std::int64_t exponents() const;  // of `count` elements, a byte each
  std::int64_t decoded() const;    // elements that the rank of the first slice decodes
  // Bytes of the codes of `elements` elements of one sender, of all that a rank sends to the ranks of a slice, and of the
  // result on its way back (fp32 or integers without codec).
  std::int64_t code_bytes(std::int64_t elements) const;
  std::int64_t sent_bytes(std::int64_t elements) const;
  std::int64_t back_bytes(std::int64_t elements) const;
  // Bytes that come in for a rank's slice; 0 where a sum of all is made in place.
  std::int64_t received_bytes(int rank) const;
  // Bytes in memory in addition to gradients: the codes that it sends and receives, then results as codes.
  std::int64_t buffers(int rank) const;
};
CodedReduction coded_reduction(const PlanSet& plan, UnitId unit);

// Whether sums of every micro-batch are coded, because shards are exchanged below all other sums. Then
// sums.senders above are those of a micro-batch.
bool codes_each_micro_batch(const mesh::Mesh& mesh, const Recipe& recipe);

// A reduction's `within`: neighbours that are one sender, where there are several.
int within_of(const mesh::Mesh& mesh, const Recipe& recipe, const Instr& line);

// Senders whose sums a rank makes by itself: 1 where nothing is coded.
int senders_of_rank(const PlanSet& plan, UnitId unit);

// Elements of each residual of the unit on a rank, and bytes of what a step replaces of these and of the factors that
// start the next step: 0 where there are none.
std::int64_t residual_elements(const PlanSet& plan, int rank, UnitId unit);
std::int64_t residual_bytes(const PlanSet& plan, int rank, UnitId unit);

// Elements [begin, end) of the unit, without padding, that each residual of a rank holds from its element `at` on.
struct ResidualRange {
  std::int64_t begin = 0, end = 0, at = 0;
};
std::vector<ResidualRange> residual_ranges(const PlanSet& plan, int rank, UnitId unit);
// Number of a rank's index-th residual among those of all ranks.
int residual_number(const PlanSet& plan, int rank, UnitId unit, int index);

// Micro-batches of each of them where there are several, else 0.
int sender_micro_batches(const PlanSet& plan, UnitId unit);

// Ranks of a host as the recipe's codes have them: the neighbours that keep codes, or that are one sender, or the shards
// of a replica that is one. 0: it says nothing.
int host_ranks(const PlanSet& plan);

// The reason why sums of this recipe cannot be coded on this mesh, if there is one.
std::optional<std::string> mistake_in_coded(const mesh::Mesh& mesh, const Recipe& recipe);

}  // namespace trireme::plan
