// Units that leave memory and come back.
#include <c10/core/InferenceMode.h>

#include <utility>

#include "trireme/base/error.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/binary_counter.h"

namespace trireme::exec {

using plan::TensorKind;

namespace {

// A flat of a unit and where it waits.
struct Place {
  Flat* flat;
  std::int64_t count;
  DType type;
  scratch::Extent extent;
};

std::vector<Place> states_of(UnitState& unit) {
  std::vector<Place> places;
  for (const auto& [flat, shape] : unit.state_flats())
    places.push_back({flat, shape.count, shape.type, {}});
  for (std::size_t i = 0; i < unit.extents->states.size(); ++i)
    places[i].extent = unit.extents->states[i];
  return places;
}

Place params_of(UnitState& unit) {
  if (unit.codes && unit.codes->rests)
    return {&unit.part, unit.codes->part, DType::kU8, unit.extents->params};
  Flat* const flat = unit.sharing.gathers ? &unit.part : &unit.full;
  return {flat, unit.sharing.gathers ? unit.part_count : unit.padded, unit.param_type,
          unit.extents->params};
}

Place level_of(UnitState& unit, std::size_t chunk, int level, DType type) {
  return {&unit.chunks[chunk].counter.level(level),
          unit.sharing.scatters_each ? unit.part_count : unit.padded, type,
          unit.extents->levels[chunk][level]};
}

// The sums that the gradient of the line's micro-batch meets, or the one that it makes, bit by bit.
unsigned levels_of(const plan::Instr& line, const plan::Recipe& recipe) {
  const int row = plan::summed_in_row(recipe);
  return line.verb == plan::Verb::kReload ? (1u << plan::levels_met(line.mb, row)) - 1
                                          : 1u << plan::level_of_sum(line.mb, row);
}

// Subjects of the line.
std::vector<Place> places_of(UnitState& unit, const plan::Instr& line, const plan::Recipe& recipe) {
  if (line.tensors == TensorKind::kStates) return states_of(unit);
  if (line.tensors == TensorKind::kParams) return {params_of(unit)};
  const bool back = line.verb == plan::Verb::kReload;
  if (line.mb < 0 && (!back || !unit.square_sums.empty()))
    return {{&unit.grad, unit.part_count, recipe.grads, unit.extents->gradient}};
  std::vector<Place> places;
  for (std::size_t chunk = 0; chunk < unit.chunks.size(); ++chunk) {
    if (line.mb >= 0 && static_cast<int>(chunk) != line.chunk) continue;
    const unsigned levels = line.mb < 0 ? unit.chunks[chunk].away : levels_of(line, recipe);
    for (int level = 0; levels >> level != 0; ++level)
      if ((levels >> level & 1) != 0) places.push_back(level_of(unit, chunk, level, recipe.grads));
  }
  return places;
}

void note_levels(UnitState& unit, const plan::Instr& line, const plan::Recipe& recipe) {
  if (line.tensors != TensorKind::kGrads) return;
  for (std::size_t chunk = 0; chunk < unit.chunks.size(); ++chunk) {
    unsigned& away = unit.chunks[chunk].away;
    if (line.mb < 0)
      away = 0;
    else if (static_cast<int>(chunk) != line.chunk)
      continue;
    else if (line.verb == plan::Verb::kReload)
      away &= ~levels_of(line, recipe);
    else
      away |= levels_of(line, recipe);
  }
}

}  // namespace

void Units::allocate(UnitState& unit, TensorKind tensors) {
  const bool pages = unit.is_away(tensors);
  const auto make = [&](Flat& flat, std::int64_t count, DType type) {
    flat = Flat(*memory_, count, type, pages);
    flat.zero();
  };
  if (tensors == TensorKind::kStates) {
    for (const auto& [flat, shape] : unit.state_flats()) make(*flat, shape.count, shape.type);
    return;
  }
  const Place params = params_of(unit);
  make(*params.flat, params.count, params.type);
  if (!unit.sharing.gathers) unit.params.attach(unit.full);
}

Movement Units::reload_begin(const plan::Instr& line) {
  UnitState& unit = at(line.unit);
  Movement movement;
  for (const Place& place : places_of(unit, line, plan_.recipe))
    movement.read(space_.of(line.tensors), place.extent,
                  Flat(*memory_, place.count, place.type, /*pages=*/true));
  return movement;
}

void Units::finish_reload(const plan::Instr& line, Movement& movement) {
  UnitState& unit = at(line.unit);
  movement.wait();
  std::vector<Flat> flats = movement.take();
  const std::vector<Place> places = places_of(unit, line, plan_.recipe);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i].flat = std::move(flats[i]);
  note_levels(unit, line, plan_.recipe);
  if (line.tensors == TensorKind::kParams && !unit.sharing.gathers) unit.params.attach(unit.full);
}

Movement Units::offload_begin(const plan::Instr& line) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(line.unit);
  const bool sum = line.tensors == TensorKind::kGrads && line.mb < 0;
  if (sum) {
    finish_reduce(line.unit);
    unit.square_sums = chunk_square_sums(line.unit);
  }
  if (line.tensors == TensorKind::kParams) unit.params.detach();
  Movement movement;
  for (const Place& place : places_of(unit, line, plan_.recipe))
    movement.write(space_.of(line.tensors), place.extent, std::move(*place.flat));
  note_levels(unit, line, plan_.recipe);
  if (sum) unit.left = movement.tickets();
  return movement;
}

void Units::come(plan::UnitId unit, TensorKind tensors) {
  const plan::Instr line{.verb = plan::Verb::kReload, .unit = unit, .tensors = tensors};
  Movement movement = reload_begin(line);
  finish_reload(line, movement);
}

void Units::leave(plan::UnitId unit, TensorKind tensors) {
  offload_begin({.verb = plan::Verb::kOffload, .unit = unit, .tensors = tensors}).wait();
}

}  // namespace trireme::exec
