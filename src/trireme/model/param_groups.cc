#include "trireme/model/param_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/model/unit_optimizers.h"

namespace trireme::model {
namespace {

using config::ParamGroup;

// Edits that make `name` match `pattern`, whose stars are any text.
int edits(std::string_view pattern, std::string_view name) {
  std::vector<int> above(name.size() + 1), row(name.size() + 1);
  for (std::size_t j = 0; j <= name.size(); ++j) above[j] = static_cast<int>(j);
  for (const char c : pattern) {
    const bool star = c == '*';
    row[0] = above[0] + (star ? 0 : 1);
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const int kept = above[j - 1] + (c == name[j - 1] || c == '?' ? 0 : 1);
      row[j] =
          star ? std::min(above[j], row[j - 1]) : std::min({above[j] + 1, row[j - 1] + 1, kept});
    }
    std::swap(above, row);
  }
  return above.back();
}

std::vector<std::string> closest(std::string_view pattern, std::vector<std::string> names) {
  constexpr std::size_t kMost = 3;
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return edits(pattern, name); });
  names.resize(std::min(kMost, names.size()));
  return names;
}

bool is_of(std::string_view pattern, const UnitSpec& unit, const ParamSpec& param) {
  return matches(pattern, param.name) || matches(pattern, undivided_name(unit));
}

template <typename Spec, typename Visit>
void for_trainable(Spec& spec, const Visit& visit) {
  for (std::size_t i = 0; i < spec.units.size(); ++i)
    if (spec.program.units[i].trainable)
      for (auto& param : spec.units[i].params) visit(spec.units[i], param);
}

void check_pattern(std::string_view pattern, const ModelSpec& spec) {
  std::vector<std::string> names;
  std::string frozen;  // a parameter that matches
  for (std::size_t i = 0; i < spec.units.size(); ++i) {
    const bool trains = spec.program.units[i].trainable;
    if (trains) names.push_back(spec.units[i].name);
    for (const ParamSpec& param : spec.units[i].params) {
      if (trains) names.push_back(param.name);
      if (!is_of(pattern, spec.units[i], param)) continue;
      if (trains) return;
      frozen = param.name;
    }
  }
  if (!frozen.empty())
    fail(ErrorKind::kUsage,
         "optim.groups: \"{}\" matches frozen parameters only, such as {}. Leave the group out, or "
         "let them train.",
         pattern, frozen);
  fail(ErrorKind::kUsage,
       "optim.groups: \"{}\" matches no parameter and no unit. The closest names are {}.", pattern,
       fmt::join(closest(pattern, std::move(names)), ", "));
}

void check_group(const config::Optim& optim, const ParamGroup& group, const ModelSpec& spec) {
  check_patterns("optim.groups", group.match);
  for (const std::string_view pattern : split_list(group.match)) check_pattern(pattern, spec);
  bool used = false;
  for_trainable(spec, [&](const UnitSpec& unit, const ParamSpec& param) {
    used = used || group_of(optim, unit, param) == &group;
  });
  if (!used)
    fail(ErrorKind::kUsage,
         "optim.groups: every parameter that \"{}\" matches belongs to a later group. Move it "
         "after that group, or leave it out.",
         group.match);
  if (group.weight_decay.value_or(0) > 0 && optim.weight_decay == 0)
    fail(ErrorKind::kUsage,
         "optim.groups: \"{}\" has weight_decay={}, a multiple of optim.weight_decay=0. Set "
         "optim.weight_decay, and begin the groups with {{match: \"*\", weight_decay: 0}}.",
         group.match, *group.weight_decay);
}

}  // namespace

const ParamGroup* group_of(const config::Optim& optim, const UnitSpec& unit,
                           const ParamSpec& param) {
  const std::vector<ParamGroup>& groups = optim.groups;
  const auto last = std::ranges::find_if(groups.rbegin(), groups.rend(), [&](const auto& group) {
    return std::ranges::any_of(split_list(group.match), [&](std::string_view pattern) {
      return is_of(pattern, unit, param);
    });
  });
  return last == groups.rend() ? nullptr : &*last;
}

void set_groups(const config::Optim& optim, ModelSpec& spec) {
  for (const ParamGroup& group : optim.groups) check_group(optim, group, spec);
  for_trainable(spec, [&](const UnitSpec& unit, ParamSpec& param) {
    const ParamGroup* const group = group_of(optim, unit, param);
    if (group == nullptr) return;
    param.lr *= group->lr_mult;
    if (group->weight_decay)
      param.decay = *group->weight_decay == 0 ? 0 : *group->weight_decay / optim.weight_decay;
  });
}

std::vector<GroupCount> count_groups(const config::Optim& optim, const ModelSpec& spec) {
  std::vector<std::pair<std::ptrdiff_t, GroupCount>> counts;  // with the place of the group
  for_trainable(spec, [&](const UnitSpec& unit, const ParamSpec& param) {
    const ParamGroup* const group = group_of(optim, unit, param);
    const std::ptrdiff_t place = group == nullptr ? -1 : group - optim.groups.data();
    const double decay = param.decay * optim.weight_decay;
    auto found = std::ranges::find_if(counts, [&](const auto& entry) {
      return entry.first == place && entry.second.lr == param.lr &&
             entry.second.weight_decay == decay && entry.second.optimizer == unit.optimizer;
    });
    if (found == counts.end())
      found = counts.insert(counts.end(), {place,
                                           {.match = group == nullptr ? "" : group->match,
                                            .lr = param.lr,
                                            .weight_decay = decay,
                                            .optimizer = unit.optimizer}});
    found->second.tensors += 1;
    found->second.parameters += param.numel();
  });
  std::ranges::stable_sort(counts, {}, [](const auto& entry) { return entry.first; });
  std::vector<GroupCount> all;
  for (auto& [place, count] : counts) all.push_back(std::move(count));
  return all;
}

}  // namespace trireme::model
