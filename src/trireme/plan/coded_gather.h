// GatheredCodes: what a gather of codes sends and keeps; one answer for account, price and executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Each shard is coded by its owner. Every rank decodes all of them, its own included.
struct GatheredCodes {
  codec::Codec codec;
  std::int64_t block = 0;  // elements coded together
  std::int64_t part = 0;   // bytes of a shard's codes
  int shards = 1;
  int within = 0;      // neighbours that keep the codes after the first gather of a step
  bool rests = false;  // the shard's codes are what a rank has of the parameters between uses
  std::int64_t bytes() const { return part * shards; }
  // Of the codes that a rank keeps for its neighbours and itself.
  std::int64_t kept() const { return within > 0 ? bytes() / within : 0; }
};
GatheredCodes gathered_codes(const PlanSet& plan, UnitId unit);

// The reason why parameters of this recipe cannot travel as codes on this mesh, if there is one.
std::optional<std::string> mistake_in_gather(const mesh::Mesh& mesh, const Recipe& recipe);

}  // namespace trireme::plan
