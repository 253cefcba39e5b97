// Updates of whole matrices (Muon): which rank computes which, and what moves for that.
#pragma once

#include <cstdint>

#include "trireme/plan/plan.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

// Ranks that have shards of a unit divide its matrices among them. A rank sends what it has of each matrix to the owner
// (`exchange_update`), which computes the update of the whole (`update_matrices`), and gets back its elements of
// it (`exchange_update .. scatter`). The update is computed by one rank in one way, so it is the same in every layout. A
// rank that has the whole unit computes all of it.
bool exchanges_updates(const UnitSharing& sharing, const Unit& unit);

// Operations of an update: `rounds` Newton-Schulz iterations of three products each.
double update_flops(const Matrix& matrix, int rounds);

// Gives each matrix of a unit that is updated by matrix its owner: within a pipeline stage the most expensive first,
// to the shard that has least to compute.
void assign_owners(Program& program, const mesh::Mesh& mesh, const Recipe& recipe);

// Of one unit on the rank of one shard; `part` elements are a shard.
class MatrixUpdates {
 public:
  MatrixUpdates(const PlanSet& plan, UnitId unit);

  int shards() const { return shards_; }
  bool is_own(const Matrix& matrix, int shard) const {
    return shards_ == 1 || matrix.owner == shard;
  }
  // Elements of the matrices of shard `to` among those of shard `from`, and all of the matrices of a shard.
  std::int64_t moved(int from, int to) const;
  std::int64_t owned(int shard) const;
  double flops(int shard) const;
  std::int64_t bytes_of_part(
      int shard) const;  // of a shard's elements of matrices, without padding
  // Bytes of the update of the largest matrix while it is computed.
  std::int64_t work_bytes(int shard) const;
  // Bytes of elements on their way: in the masters' type.
  std::int64_t bytes(std::int64_t elements) const;

 private:
  const Unit& unit_;
  const Recipe& recipe_;
  int shards_ = 1;
  std::int64_t part_ = 0;
};

}  // namespace trireme::plan
