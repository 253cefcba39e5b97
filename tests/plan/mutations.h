// Planted errors in plans: a line left out, a line twice.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "trireme/base/error.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// The validator's reason, or "" when it accepts the plan.
inline std::string refusal(const PlanSet& plan) {
  try {
    validate(plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.what();
  }
  return "";
}

// The list without a line. What it waited for, the next line of its lane waits for instead, so that
// the validator has to miss the line itself.
inline void drop(List& list, int line) {
  const Instr dropped = list[line];
  list.erase(list.begin() + line);
  for (Instr& instr : list) {
    std::erase(instr.after, line);
    for (int& earlier : instr.after) earlier -= earlier > line;
  }
  const auto next = std::find_if(list.begin() + line, list.end(),
                                 [&](const Instr& instr) { return instr.lane == dropped.lane; });
  if (next == list.end()) return;
  next->after.insert(next->after.end(), dropped.after.begin(), dropped.after.end());
  std::ranges::sort(next->after);
  next->after.erase(std::ranges::unique(next->after).begin(), next->after.end());
}

// The list with a line a second time behind itself.
inline void repeat(List& list, int line) {
  const Instr again = list[line];
  for (std::size_t k = static_cast<std::size_t>(line) + 1; k < list.size(); ++k)
    for (int& earlier : list[k].after) earlier += earlier > line;
  list.insert(list.begin() + line + 1, again);
}

// Calls visit(list, line).
template <typename Visit>
void for_each_line(const PlanSet& plan, Visit visit) {
  for (std::size_t l = 0; l < plan.lists.size(); ++l)
    for (std::size_t i = 0; i < plan.lists[l].size(); ++i) visit(l, i);
}

}  // namespace trireme::plan
