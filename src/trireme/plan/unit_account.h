// UnitAccount: what of a rank's units is in memory while its list runs: parameters, optimizer states, gradients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trireme/plan/binary_counter.h"
#include "trireme/plan/coded_gather.h"
#include "trireme/plan/compile/lane_order.h"
#include "trireme/plan/ledger.h"
#include "trireme/plan/offload.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

class UnitAccount {
 public:
  // Plan and ledger outlive it. Adds to the ledger what the rank has between steps.
  UnitAccount(const PlanSet& plan, int rank, Ledger& ledger);

  // Parameters, gradients and optimizer states, as ZeRO counts them.
  std::int64_t model_states() const { return model_states_; }

  // Ends the reductions and gathers that have ended before the line begins, or before the end of the list.
  void settle_before(int line);
  void begin(const Instr& line);
  // A line that adds to the gradients of its node's units.
  void add_gradients(const Instr& line);
  // The unit's gradient of a micro-batch is complete in a chunk.
  void complete(UnitId unit, int chunk);
  // A shard has left memory, before the line that waits for it takes its own.
  void gone(const Instr& line);

 private:
  // Live parts of a unit's gradient in one of the rank's chunks.
  struct ChunkMemory {
    bool leaf = false;      // the gradient of one micro-batch is open
    BinaryCounter counter;  // its levels, and which of them are outside memory
    int levels = 0;         // partial sums in memory
    int senders = 0;        // sums that are complete and wait for the cut of coded sums
  };
  // Sizes of one unit on this rank, and what of its gradient is live.
  struct UnitMemory {
    UnitSharing sharing{};
    std::int64_t full = 0;  // elements of full buffers: shards with their padding
    std::int64_t part = 0;  // elements that this rank steps
    int leaves = 1;         // pushed at a time, where every micro-batch is scattered
    int sender_mbs = 0;     // micro-batches of a sender, if this rank makes sums of several
    int pending = -1;       // reduction on its way
    int gathering = -1;     // gather of codes on its way
    std::optional<GatheredCodes> codes{};
    bool summed = false;         // the step's sum has left, or come back
    std::int64_t direction = 0;  // bytes of the direction, or of the update, of its matrices
    std::map<int, ChunkMemory> chunks{};
  };

  UnitMemory& at(UnitId unit) { return units_[unit]; }
  const UnitMemory& at(UnitId unit) const { return units_[unit]; }
  const Unit& of(UnitId unit) const { return plan_.program.units[unit]; }
  ChunkMemory& chunk(UnitMemory& unit, int number) const;

  std::int64_t full_bytes(UnitId unit) const;    // of the gathered parameters
  std::int64_t params_bytes(UnitId unit) const;  // between steps
  std::int64_t states_bytes(UnitId unit) const;  // what the optimizer keeps
  std::int64_t grad_bytes(std::int64_t count) const;
  std::int64_t reduce_bytes(std::int64_t count) const;
  bool at_low_rank(const Instr& line) const;  // a reduction of factors
  bool converts(const Instr& line) const;  // copies travel between ranks: of another type, or codes
  std::int64_t level_bytes(const UnitMemory& unit) const;  // of the counter
  std::int64_t sum_bytes(const UnitMemory& unit) const;    // of the step's sum, reduced
  static std::int64_t received(const Instr& line, const UnitMemory& unit);
  std::int64_t copied_bytes(const Instr& line, const UnitMemory& unit) const;

  void persistent(UnitId unit);
  bool waits_for(int index, int pending) const;
  bool settles(int index, const UnitMemory& unit) const;
  void unshard(const Instr& line, UnitMemory& unit);
  void settle(UnitMemory& unit);
  void push(const UnitMemory& unit, ChunkMemory& chunk) const;
  void collapse(const UnitMemory& unit, ChunkMemory& chunk);
  void collapse(UnitMemory& unit);
  void reduce(const Instr& line, UnitMemory& unit);
  void direct(UnitId id, MemoryKind kind, std::int64_t taken);
  int shard_of(const UnitMemory& unit) const;
  void exchange_update(const Instr& line);
  void update_matrices(UnitId id);
  void step(UnitId id);
  void reload(const Instr& line);
  void reload_gradients(const Instr& line);
  void offload(const Instr& line);

  const PlanSet& plan_;
  int rank_;
  const Recipe& recipe_;
  const List& list_;
  Ledger& ledger_;
  LaneOrder order_;
  Away away_;
  std::vector<UnitMemory> units_;
  std::int64_t model_states_ = 0;
};

}  // namespace trireme::plan
