// The one list of keys of a cluster file: parsing, printing, checks and docs come from it.
#pragma once

#include <optional>
#include <vector>

#include "trireme/config/values/field.h"
#include "trireme/planner/hardware/hardware.h"

namespace trireme::planner {

template <typename Owner>
using FieldList = std::vector<config::FieldOf<Owner>>;

// Keys with a dot stand in a map within the owner's.
const FieldList<Gpu>& gpu_fields();
const FieldList<NetworkTier>& tier_fields();
const FieldList<Price>& price_fields();
const FieldList<Cluster>&
cluster_fields();  // without gpu, tiers and prices, which are maps and lists of these

// The value as a number, if it is one.
std::optional<double> number_of(const config::Value& value);

// Whether the owner's value is outside the field's values; true for a new owner: the key is needed.
template <typename Owner>
bool is_missing(const config::FieldOf<Owner>& field, const Owner& owner = {}) {
  const std::optional<double> number = number_of(field.get(owner));
  return number && !field.range.holds(*number);
}

}  // namespace trireme::planner
