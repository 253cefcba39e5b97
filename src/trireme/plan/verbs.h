// Properties of verbs, in one table. Text, pictures and validator read it.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "trireme/plan/instr.h"

namespace trireme::plan {

// Subject of a line of the verb. kMoved: a shard of a unit, or a value.
enum class Subject : std::uint8_t { kNone, kNode, kUnit, kValue, kMoved };

// Fields of a line besides verb, lane and `after`, which all lines have.
enum class Field : std::uint16_t {
  kNode = 1 << 0,
  kUnit = 1 << 1,
  kValue = 1 << 2,
  kTensors = 1 << 3,
  kMb = 1 << 4,
  kChunk = 1 << 5,
  kPeer = 1 << 6,
  kAxes = 1 << 7,
  kKeep = 1 << 8,
  kScatter = 1 << 9,
  kGradient = 1 << 10,
  kCoded = 1 << 11,
  kResidual = 1 << 12,
  kWithin = 1 << 13,
};

class FieldSet {
 public:
  constexpr FieldSet() = default;
  constexpr FieldSet(Field field) : bits_(static_cast<std::uint16_t>(field)) {}
  friend constexpr FieldSet operator|(FieldSet one, FieldSet other) {
    FieldSet both;
    both.bits_ = static_cast<std::uint16_t>(one.bits_ | other.bits_);
    return both;
  }
  constexpr bool contains(Field field) const {
    return (bits_ & static_cast<std::uint16_t>(field)) != 0;
  }

 private:
  std::uint16_t bits_ = 0;
};
constexpr FieldSet operator|(Field one, Field other) { return FieldSet(one) | FieldSet(other); }

struct VerbInfo {
  Verb verb;
  std::string_view name;  // in the text
  char letter;            // in pictures of a step
  Lane lane;              // transfers upwards and moves over axes have another: lane_of()
  Subject subject;
  FieldSet needs;  // fields that every line of the verb has
  FieldSet may{};  // and those that some have
};

// Parallel to Verb.
inline constexpr VerbInfo kVerbs[] = {
    {Verb::kLoad, "load", 'L', Lane::kComp, Subject::kNone, Field::kMb},
    {Verb::kUnshard, "unshard", 'U', Lane::kDp, Subject::kUnit, Field::kUnit | Field::kAxes,
     Field::kCoded | Field::kWithin},
    {Verb::kReshard, "reshard", '-', Lane::kComp, Subject::kUnit, Field::kUnit},
    {Verb::kForward, "forward", 'F', Lane::kComp, Subject::kNode, Field::kNode | Field::kMb,
     Field::kKeep},
    {Verb::kRecompute, "recompute", 'C', Lane::kComp, Subject::kNode, Field::kNode | Field::kMb},
    {Verb::kBackward, "backward", 'B', Lane::kComp, Subject::kNode, Field::kNode | Field::kMb},
    {Verb::kBackwardInput, "backward_input", 'I', Lane::kComp, Subject::kNode,
     Field::kNode | Field::kMb},
    {Verb::kBackwardWeight, "backward_weight", 'W', Lane::kComp, Subject::kNode,
     Field::kNode | Field::kMb},
    {Verb::kSend, "send", 'S', Lane::kDown, Subject::kValue,
     Field::kValue | Field::kMb | Field::kPeer, Field::kGradient},
    {Verb::kRecv, "recv", 'R', Lane::kDown, Subject::kValue,
     Field::kValue | Field::kMb | Field::kPeer, Field::kGradient},
    {Verb::kReduceGrads, "reduce_grads", 'G', Lane::kDp, Subject::kUnit,
     Field::kUnit | Field::kAxes,
     Field::kMb | Field::kChunk | Field::kScatter | Field::kCoded | Field::kResidual |
         Field::kWithin},
    {Verb::kSyncTied, "sync_tied", 'T', Lane::kDp, Subject::kUnit, Field::kUnit | Field::kAxes},
    {Verb::kOffload,
     "offload",
     '>',
     Lane::kD2h,
     Subject::kMoved,
     {},
     Field::kUnit | Field::kValue | Field::kTensors | Field::kMb | Field::kChunk | Field::kAxes},
    {Verb::kReload,
     "reload",
     '<',
     Lane::kH2d,
     Subject::kMoved,
     {},
     Field::kUnit | Field::kValue | Field::kTensors | Field::kMb | Field::kChunk | Field::kAxes},
    {Verb::kGradNorm, "grad_norm", 'N', Lane::kDp, Subject::kNone, {}},
    {Verb::kExchangeUpdate, "exchange_update", 'X', Lane::kDp, Subject::kUnit,
     Field::kUnit | Field::kAxes, Field::kScatter},
    {Verb::kUpdateMatrices, "update_matrices", 'P', Lane::kComp, Subject::kUnit, Field::kUnit},
    {Verb::kStep, "step", 'O', Lane::kComp, Subject::kUnit, Field::kUnit, Field::kResidual},
    {Verb::kEma, "ema", 'E', Lane::kComp, Subject::kUnit, Field::kUnit},
    {Verb::kOuterReduce, "outer_reduce", 'D', Lane::kDp, Subject::kUnit,
     Field::kUnit | Field::kAxes},
    {Verb::kOuterStep, "outer_step", 'M', Lane::kComp, Subject::kUnit, Field::kUnit},
};

inline constexpr int kVerbCount = static_cast<int>(std::size(kVerbs));

constexpr const VerbInfo& info(Verb verb) { return kVerbs[static_cast<std::size_t>(verb)]; }
constexpr Subject subject_of(Verb verb) { return info(verb).subject; }

// The lane of a line on a stage. Transfers run down towards later stages and up towards earlier ones. For a value
// shared by tp ranks, a reload is a collective and an offload frees memory.
Lane lane_of(const Instr& line, int stage);

namespace internal {

consteval bool verbs_are_in_order() {
  for (int i = 0; i < kVerbCount; ++i)
    if (kVerbs[i].verb != static_cast<Verb>(i)) return false;
  return kVerbs[kVerbCount - 1].verb == Verb::kOuterStep;
}
static_assert(verbs_are_in_order());

}  // namespace internal

}  // namespace trireme::plan
