// The fields of a line: their one list. The plan's text, what lines meet and the tests that break plans go by it.
#pragma once

#include <string_view>

#include "trireme/plan/verbs.h"

namespace trireme::plan {

inline constexpr int kLaneCount = 6, kPieceCount = 4;

// Calls visit(key, pointer to member) for every field, in the order of the text.
template <typename Visit>
constexpr void for_each_field(Visit&& visit) {
  visit(std::string_view("lane"), &Instr::lane);
  visit(std::string_view("verb"), &Instr::verb);
  visit(std::string_view("node"), &Instr::node);
  visit(std::string_view("unit"), &Instr::unit);
  visit(std::string_view("value"), &Instr::value);
  visit(std::string_view("tensors"), &Instr::tensors);
  visit(std::string_view("gradient"), &Instr::gradient);
  visit(std::string_view("mb"), &Instr::mb);
  visit(std::string_view("chunk"), &Instr::chunk);
  visit(std::string_view("peer"), &Instr::peer);
  visit(std::string_view("over"), &Instr::axes);
  visit(std::string_view("within"), &Instr::within);
  visit(std::string_view("keep"), &Instr::keep);
  visit(std::string_view("scatter"), &Instr::scatter);
  visit(std::string_view("coded"), &Instr::coded);
  visit(std::string_view("residual"), &Instr::residual);
  visit(std::string_view("after"), &Instr::after);
}

namespace internal {

consteval int listed_fields() {
  int count = 0;
  for_each_field([&](std::string_view, auto) { ++count; });
  return count;
}

// Does not compile for another number of fields: a new one belongs into the list above.
inline void fields_of_a_line(const Instr& line) {
  [[maybe_unused]] const auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15,
                                f16, f17] = line;
}
static_assert(listed_fields() == 17);

}  // namespace internal

}  // namespace trireme::plan
