#include "trireme/model/node_types.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::model {
namespace {

// Types that a node may have among nodes of type `compute`: fp16 needs scaled gradients, fp64 wide sums.
std::vector<DType> choices(DType compute) {
  switch (compute) {
    case DType::kF64: return {DType::kF64};
    case DType::kF16: return {DType::kF16, DType::kF32, DType::kBF16};
    default: return {DType::kF32, DType::kBF16};
  }
}

}  // namespace

NodeTypes::NodeTypes(DType compute, std::string text) : compute_(compute), text_(std::move(text)) {
  const std::vector<DType> types = choices(compute_);
  std::string names;
  for (DType type : types) names += fmt::format("{}{}", names.empty() ? "" : ", ", name(type));
  if (text_.empty()) return;
  for (std::string_view rule : split_list(text_)) {
    const std::size_t equals = rule.find('=');
    const auto type = std::ranges::find_if(types, [&](DType one) {
      return equals != std::string_view::npos && name(one) == rule.substr(equals + 1);
    });
    if (equals == 0 || type == types.end())
      fail(ErrorKind::kUsage,
           "precision.nodes={}: \"{}\" is not a rule; needs NODE=TYPE,.. such as head=fp32, with "
           "types {} for precision.compute={}",
           text_, rule, names, name(compute_));
    rules_.push_back({.pattern = std::string(rule.substr(0, equals)), .type = *type});
  }
}

DType NodeTypes::of(const std::string& name) const {
  DType type = compute_;
  for (const Rule& rule : rules_)
    if (matches(rule.pattern, name)) type = rule.type;
  return type;
}

void NodeTypes::apply(plan::Program& program) const {
  for (const Rule& rule : rules_)
    if (std::ranges::none_of(program.nodes, [&](const plan::Node& node) {
          return matches(rule.pattern, node.name);
        }))
      fail(ErrorKind::kUsage,
           "precision.nodes={}: {} fits no node of {}, which has {} .. {}; see `trireme explain`",
           text_, rule.pattern, program.name, program.nodes.front().name,
           program.nodes.back().name);
  std::vector<const plan::Node*> first_user(program.units.size());
  for (const plan::Node& node : program.nodes) {
    const DType type = of(node.name);
    for (plan::UnitId unit : node.units) {
      const plan::Node*& first = first_user[unit];
      if (first == nullptr) {
        first = &node;
        if (type != compute_) program.units[unit].type = type;
      } else if (of(first->name) != type) {
        fail(ErrorKind::kUsage,
             "precision.nodes={}: unit {} is used by {} in {} and by {} in {}; give both one type",
             text_, program.units[unit].name, first->name, name(of(first->name)), node.name,
             name(type));
      }
    }
  }
}

}  // namespace trireme::model
