// StateSlice: the name of some elements of a unit's state.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/plan/program.h"

namespace trireme::exec {

// Names elements [offset, offset + count) of one state of one unit as this tp rank holds it, without padding.
struct StateSlice {
  plan::UnitId unit = -1;
  std::string kind;  // "param" (master type), a state's name, "residual" and its sender, or "grad"
  std::int64_t offset = 0;
  std::int64_t count = 0;
  DType type = DType::kF32;
  std::int64_t block = 1;        // elements of the unit for each of these
  int sender = -1, senders = 0;  // of a residual, of the job
  int island = -1;               // that alone has it: `kind` is after "islandN."
  bool begins = false;           // zeros where a checkpoint has none, as at the beginning of a run
};
std::string residual_kind(int sender);

}  // namespace trireme::exec
