// Checks of state that leaves memory and returns: the state machines of reload and offload.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trireme/plan/binary_counter.h"
#include "trireme/plan/check/list_check.h"
#include "trireme/plan/offload.h"

namespace trireme::plan {

// Nothing is used while it is away or before it has arrived, and nothing arrives twice or is lost. Changed state is
// written back, and few enough units are in memory for their steps at a time.
class OffloadCheck {
 public:
  explicit OffloadCheck(const ListView& view);
  void line(int index);
  void finish();

 private:
  // Optimizer states or parameters of a unit.
  struct Held {
    bool away = false;   // outside memory between uses
    int brought = -1;    // the line that did; none: not in memory
    int changed = -1;    // the last line that did
    bool saved = false;  // and it has left
  };
  // Sums over micro-batches in one of the rank's chunks.
  struct Sums {
    int users = 0;
    int rounds = 0;  // micro-batches that add to them
    int parts = 0;   // of the micro-batch under way
    BinaryCounter counter{};
  };
  struct Gradient {
    bool away = false;
    std::map<int, Sums> chunks{};
    int made = -1;        // last line that added to it or reduced it
    int brought = -1;     // last line that brought sums back
    int left = -1;        // last line that sent some away
    bool summed = false;  // the step's sum is on its own
    bool there = true;    // and in memory
  };
  struct UnitState {
    UnitSharing sharing{};
    Held states{};
    Held params{};
    Gradient grad{};
  };

  UnitState& at(UnitId unit) { return units_[unit]; }
  const std::string& unit_name(UnitId unit) const { return view_.program().units[unit].name; }
  Held& held(const Instr& line) {
    return line.tensors == TensorKind::kStates ? at(line.unit).states : at(line.unit).params;
  }
  void require_here(int index, UnitId unit, const Held& held, const char* what) const;
  void require_room(int index) const;

  void compute(int index, const Instr& line);
  void add(int index, UnitId unit, int chunk);
  void push(int index, UnitId unit, int chunk);
  void reduce(int index, const Instr& line);
  void collapse(int index, UnitId unit);
  void direct(int index, UnitId unit);
  void step(int index, const Instr& line);

  void move_value(int index, const Instr& line);
  void reload(int index, const Instr& line);
  void offload(int index, const Instr& line);
  void reload_grads(int index, const Instr& line);
  void offload_grads(int index, const Instr& line);
  void stage(int index);

  const ListView& view_;
  std::vector<UnitState> units_;
  std::map<std::pair<ValueId, int>, int> values_away_;  // and the line that sent them
  std::map<std::pair<ValueId, int>, int> values_back_;
  std::map<std::pair<ValueId, int>, int> values_read_;
  std::vector<int> leaving_;  // lines that send something away
  int last_compute_ = -1;
  int last_reshard_ = -1;
};

}  // namespace trireme::plan
