// Checks of one list, line by line: the state machines of validate().
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/plan/actions.h"
#include "trireme/plan/compile/lane_order.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/text/text.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

// A list in its context, and the one way to refuse it.
struct ListView {
  const PlanSet& plan;
  const GradientFlow& flow;
  const List& list;
  int rank = 0;  // the first that runs the list
  int stage = 0;
  LaneOrder order;
  bool drawn =
      false;  // ids of all lists are in range, so that refusals can show rows of the pipeline

  const Program& program() const { return plan.program; }
  UnitSharing sharing(UnitId id) const {
    return sharing_of(plan.mesh, plan.recipe, plan.program.units[id]);
  }
  const Node& node(NodeId id) const { return plan.program.nodes[id]; }

  template <typename... Args>
  [[noreturn]] void refuse(int line, fmt::format_string<Args...> format, Args&&... args) const {
    const std::string reason = fmt::format(format, std::forward<Args>(args)...);
    if (line < 0) fail(ErrorKind::kInternal, "plan {}, rank {}: {}", program().name, rank, reason);
    fail(ErrorKind::kInternal, "plan {}, rank {}, line {} `{}`: {}{}", program().name, rank, line,
         line_text(program(), list[line]), reason,
         drawn ? marked_rows(plan, {{.rank = rank, .line = line}}) : "");
  }
  // `line` uses what `maker` made.
  void require_before(int maker, int line, const std::string& what) const {
    if (!order.before(maker, line)) refuse(line, "does not wait for line {}, {}", maker, what);
  }
};

// Lane, ids, micro-batch and `after` of every line are such as the verb has them.
void check_fields(const ListView& view);

// Values, saved contexts and gradients of values: there when used, made once, gone at the end.
class FlowCheck {
 public:
  explicit FlowCheck(const ListView& view) : view_(view), writers_(writers(view.program())) {}
  void line(int index);
  void finish();

 private:
  using OfMicroBatch = std::pair<int, int>;  // a value or node, of a micro-batch
  struct Made {
    int line = -1;
    bool must_be_read = false;
    bool read = false;
  };
  void put(int index, ValueId value, int mb, bool must_be_read);
  void follow_segment(int index, const Instr& line);
  void read_inputs(int index, const Instr& line);
  void forward(int index, const Instr& line);
  void recompute(int index, const Instr& line);
  void backward(int index, const Instr& line);  // whole or its input half
  void backward_weight(int index, const Instr& line);
  void send(int index, const Instr& line);
  void recv(int index, const Instr& line);
  void add_gradient(int index, ValueId value, int mb);
  void require_gradient(int index, ValueId value, int mb, bool remote) const;

  const ListView& view_;
  std::vector<NodeId> writers_;
  std::map<OfMicroBatch, Made> values_;
  std::set<OfMicroBatch> forwarded_;
  std::set<OfMicroBatch> recomputed_;
  std::optional<Instr> last_recompute_;  // the last line, if it was a recompute
  std::map<OfMicroBatch, int> kept_;     // node: the line that saved what its backward needs
  std::set<OfMicroBatch> backward_done_;
  std::map<OfMicroBatch, int> halves_;                  // node: the line that left its weight half
  std::map<OfMicroBatch, std::vector<int>> gradients_;  // value: lines that added to its gradient
  std::set<std::tuple<ValueId, int, int, bool>> transfers_;  // value, mb, peer, gradient
};

// Units: gathered while used, gradients complete, reduced and stepped exactly once.
class UnitCheck {
 public:
  explicit UnitCheck(const ListView& view);
  void line(int index);
  void finish();

 private:
  // Gradient of one micro-batch, in one of the rank's chunks.
  struct Gradient {
    int parts = 0;             // nodes that have added to it
    bool parts_added = false;  // over tp
    int scattered = -1;        // the line that did
  };
  struct ChunkGradient {
    int users = 0;    // nodes whose backward adds to it
    int next_mb = 0;  // all before it are complete
    bool all_reduced = false;
    std::vector<Gradient> of_mb{};
  };
  struct UnitState {
    UnitSharing sharing{};
    bool held = false;  // by this stage
    bool tied = false;  // lives on other stages too
    bool full = true;
    int gathered = -1;   // line of the last unshard
    int updated = -1;    // step or ema
    bool stale = false;  // full parameters are those before the update
    std::vector<ChunkGradient> chunks{};
    bool has_gradient = false;
    int added = -1;    // last line that added to a gradient
    int reduced = -1;  // line of the last reduction or synchronisation
    bool synced = false;
  };
  UnitState& at(UnitId unit) { return units_[unit]; }
  const UnitState& at(UnitId unit) const { return units_[unit]; }
  const std::string& unit_name(UnitId unit) const { return view_.program().units[unit].name; }
  void use(int index, const Instr& line);
  void unshard(int index, const Instr& line);
  void reshard(int index, const Instr& line);
  void add_gradient(int index, const Instr& line, UnitId unit);
  void reduce(int index, const Instr& line);
  void scatter(int index, const Instr& line, UnitState& state);
  void add_parts(int index, const Instr& line, UnitState& state);
  // The chunk that a reduction is of.
  ChunkGradient& reduced_chunk(int index, const Instr& line, UnitState& state) const;
  // Calls visit(chunk, mb, gradient) for what the reduction is of: one micro-batch of its chunk, or all.
  template <typename Visit>
  void for_gradients(int index, const Instr& line, UnitState& state, Visit visit);
  void all_reduce(int index, const Instr& line, UnitState& state);
  void require_complete(int index, const ChunkGradient& chunk, int mb) const;
  void require_scattered(int index, UnitId unit, const ChunkGradient& chunk) const;
  void require_reduced(int index, UnitId unit) const;
  void sync_tied(int index, const Instr& line);
  void grad_norm(int index);
  void step(int index, const Instr& line);
  void ema(int index, const Instr& line);

  const ListView& view_;
  DataParallelRow row_;
  std::vector<UnitState> units_;
  std::vector<int> losses_;    // forward lines of loss nodes
  std::vector<int> scatters_;  // reduce-scatters of single micro-batches
  int last_reshard_ = -1;
  int grad_norm_ = -1;
};

// Whether all lists run to the end against each other.
bool runs_to_the_end(const PlanSet& plan);
// Throws Error{kInternal} naming the ranks that wait for ever, if they do not.
void check_rendezvous(const PlanSet& plan);

}  // namespace trireme::plan
