// UnitState: what one rank holds of one unit, and what is on its way.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/comm/ticket.h"
#include "trireme/exec/away_space.h"
#include "trireme/exec/groups.h"
#include "trireme/exec/optimizer.h"
#include "trireme/exec/units/chunk_gradient.h"
#include "trireme/exec/units/flat.h"
#include "trireme/exec/units/low_rank_state.h"
#include "trireme/exec/units/matrix_update.h"
#include "trireme/exec/units/outer_state.h"
#include "trireme/model/spec.h"
#include "trireme/plan/coded_gather.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::exec {

struct UnitState {
  const model::UnitSpec* spec = nullptr;
  std::vector<model::LocalParam> params_here;  // what this tp rank holds of each
  bool trainable = false;
  Optimizer* optimizer = nullptr;
  std::optional<MatrixUpdate> matrices;  // where it updates whole matrices
  plan::UnitSharing sharing{};
  int leaves = 1;              // of a micro-batch, each added to the sum here: plan::leaves_of
  bool master_copy = false;    // what is stepped is not what blocks see
  bool split = false;          // `master` has the lower parts (masters.h)
  std::array<bool, 4> away{};  // by plan::TensorKind: outside memory between uses
  const UnitExtents* extents = nullptr;

  std::int64_t numel = 0;  // of params_here
  DType param_type = DType::kF32;
  std::int64_t chunk = 0;        // of the norm
  std::int64_t state_block = 1;  // elements for each one of a state per block
  std::int64_t padded = 0;       // elements of the full buffers
  std::int64_t part_begin = 0;   // what this rank steps: [part_begin, part_begin + part_count)
  std::int64_t part_count = 0;
  std::vector<std::int64_t> offsets;
  std::vector<UpdateSegment> segments;

  std::vector<std::pair<std::int64_t, std::int64_t>>
      foreign;  // [begin, end) that another tp rank owns

  Window params;
  Window grads;
  std::vector<at::Tensor> param_views;

  std::optional<plan::GatheredCodes> codes;  // where blocks compute with what codes decode to
  Flat full;                                 // parameter type; empty while resharded
  Flat part;                                 // parameter type, or codes of masters; ZeRO-3 only
  Flat kept;    // codes for the rank's neighbours and itself, from the first gather of a step on
  Flat master;  // only where the master type differs from the parameter type; it or the rests
  std::vector<Flat> states;
  std::vector<FlatShape> state_shapes;  // of master, if there is one, and states

  std::vector<ChunkGradient> chunks;
  Flat grad;                          // gradient type: the part's, reduced, of all chunks
  std::vector<double> square_sums;    // of it, where it has left
  std::vector<scratch::Ticket> left;  // its way out

  bool stale = false;  // whole parameters, but those of other ranks as they were before the update
  bool gathering = false;
  comm::Ticket gather;
  Flat coming;         // codes of all shards
  bool keeps = false;  // and the rank's share of them then stays
  // The gradient's reduction in flight: at most one at a time, because the dp lane is in order.
  plan::Reduction reduction = plan::Reduction::kNone;
  comm::Ticket reduce;
  bool each_mb = false;  // it is of one micro-batch
  int mb_on_way = -1;    // of this one
  bool coded = false;    // codes are on their way
  int chunk_on_way = 0;  // whose it is
  Flat sent;             // must outlive the reduction
  Flat received;         // in the type in which gradients travel, like `sent`
  codec::Draws draws{};  // of the codes on their way
  Flat exponents;        // of those that are integers

  // What codes left out of each own sender's sum, and what those on their way leave out: a step takes it over.
  Flat residual, next_residual;
  LowRankState low_rank;  // empty where sums do not travel as factors
  OuterState outer;       // empty where islands merge nothing

  ChunkGradient& on_way() { return chunks[chunk_on_way]; }
  bool is_away(plan::TensorKind tensors) const { return away[static_cast<std::size_t>(tensors)]; }
  // The optimizer's states, with their shapes.
  std::vector<std::pair<Flat*, FlatShape>> state_flats();

  // The stepped values, in master type: elements [begin, begin + count) of the part. A view, a copy of split masters.
  at::Tensor stepped(std::int64_t begin, std::int64_t count) const;
  void set_stepped(std::int64_t begin, const at::Tensor& values);
  // Calls change(begin, values) for all of it, in segments if masters are split; `values` may be written.
  void change_stepped(const std::function<void(std::int64_t begin, at::Tensor values)>& change);
  // Parameters of the part from its masters, where these are whole: rounded, or what their codes decode to. Not where a
  // gather of codes follows, which take_codes() ends.
  void round_master();
  void gather_codes(MemoryCount& memory, const Groups& groups, mesh::AxisSet axes, int within);
  void take_codes();
  // After a change that is no update: rounds masters to parameters, which other ranks have to gather.
  void follow_stepped();
  // Clamps elements from `begin` of the part on to the bounds of their parameters.
  void keep_in_bounds(std::int64_t begin, const at::Tensor& values) const;
  // The same elements in parameter type, where the part has these.
  at::Tensor computed(std::int64_t begin, std::int64_t count) const;

  // The sum over micro-batches and then chunks, as a balanced tree of both; leaves nothing.
  Flat collapse();

  // The parameters' elements in the part, without padding.
  std::vector<UpdateSegment> part_segments() const;
  // Those of [begin, end) of the part, counted from `begin`.
  std::vector<UpdateSegment> segments_of(std::int64_t begin, std::int64_t end) const;
  // Sums of squares of the part's elements in `values`, such as `grad`, by norm chunk; what another tp rank owns counts as
  // zero.
  std::vector<double> chunk_square_sums(const Flat& values) const;
  // Writes elements from `first` on, in master type, to what of them is kept here.
  void place(std::int64_t first, const at::Tensor& value);
  // The parts that tp ranks hold of one another's gradients, in whole parameters' coordinates: from `gradient`
  // into `parts`, or back.
  void copy_parts(const Flat& gradient, const Flat& parts, bool back) const;

  // Calls use(global, local, count) for every range of elements [begin, begin + count) of the index-th parameter that
  // is here; `local` counts from the unit's start.
  template <typename Use>
  void for_ranges(std::size_t index, std::int64_t begin, std::int64_t count, const Use& use) const {
    for (const model::Extent& extent : params_here[index].extents) {
      const std::int64_t from = std::max(begin, extent.global);
      const std::int64_t to = std::min(begin + count, extent.global + extent.count);
      if (from < to) use(from, offsets[index] + extent.local + (from - extent.global), to - from);
    }
  }
};

}  // namespace trireme::exec
