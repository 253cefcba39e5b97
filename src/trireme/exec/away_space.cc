#include "trireme/exec/away_space.h"

#include <fmt/format.h>

#include "trireme/base/error.h"
#include "trireme/plan/compile/placement.h"

namespace trireme::exec {

using plan::TensorKind;
using plan::Tier;

static_assert(plan::kPage == scratch::kPage, "plans count scratch space in its pages");

std::unique_ptr<scratch::Scratch> open_host_memory(Tier tier) {
  if (tier != Tier::kHost)
    fail(ErrorKind::kUsage,
         "the plan offloads to {}, but the session has no scratch space there; give the session a "
         "function that opens it",
         name(tier));
  return scratch::open_memory();
}

AwaySpace::AwaySpace(const plan::PlanSet& plan, int rank, const OpenScratch& open)
    : plan_(plan), away_(plan.program, plan.recipe), units_(plan.program.units.size()) {
  const plan::Offload& offload = plan.recipe.offload;
  const int stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
  for (Tier tier : {offload.optimizer, offload.params, offload.grads, offload.activations})
    if ((tier == Tier::kHost || tier == Tier::kNvme) && !tiers_.contains(tier))
      tiers_[tier] = open(tier);
  for (plan::UnitId id : plan::units_of_stage(plan.program, stage)) {
    const plan::UnitSpace space = plan::space_of(plan, id, stage);
    UnitExtents& extents = units_[id];
    if (away(id, TensorKind::kStates))
      for (std::int64_t bytes : space.states)
        extents.states.push_back(reserve(offload.optimizer, bytes));
    if (away(id, TensorKind::kParams)) extents.params = reserve(offload.params, space.params);
    if (!away(id, TensorKind::kGrads)) continue;
    extents.gradient = reserve(offload.grads, space.gradient);
    for (int count : space.levels) {
      extents.levels.emplace_back();
      for (int level = 0; level < count; ++level)
        extents.levels.back().push_back(reserve(offload.grads, space.level));
    }
  }
  if (offload.activations == Tier::kHost || offload.activations == Tier::kNvme)
    slots_ = plan::value_slots(plan.program, plan.list(rank));
  for (std::int64_t bytes : slots_.bytes) {
    if (bytes == 0)
      fail(ErrorKind::kUsage,
           "offload.activations={}: a value to offload declares no bytes in {}; declare them",
           name(offload.activations), plan.program.name);
    values_.push_back(reserve(offload.activations, bytes));
  }
  for (auto& [tier, scratch] : tiers_) scratch->commit();
}

scratch::Extent AwaySpace::reserve(Tier tier, std::int64_t bytes) {
  if (tier == Tier::kHost) host_bytes_ += plan::whole_pages(bytes);
  return at(tier).reserve(bytes);
}

scratch::Scratch& AwaySpace::at(Tier tier) const {
  const auto found = tiers_.find(tier);
  TRIREME_CHECK(found != tiers_.end(), "no space is open on {}", name(tier));
  return *found->second;
}

scratch::Scratch& AwaySpace::of(TensorKind tensors) const {
  return at(plan::tier_of(plan_.recipe.offload, tensors));
}

scratch::Scratch& AwaySpace::of_values() const { return at(plan_.recipe.offload.activations); }

scratch::Extent AwaySpace::value(plan::ValueId value, int mb) const {
  return values_[slots_.of.at({value, mb})];
}

std::vector<std::string> AwaySpace::describe() const {
  std::vector<std::string> lines;
  for (const auto& [tier, scratch] : tiers_)
    lines.push_back(fmt::format("{}: {}", name(tier), scratch->describe()));
  return lines;
}

std::map<Tier, scratch::Traffic> AwaySpace::traffic() const {
  std::map<Tier, scratch::Traffic> all;
  for (const auto& [tier, scratch] : tiers_) all[tier] = scratch->traffic();
  return all;
}

}  // namespace trireme::exec
