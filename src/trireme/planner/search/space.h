// Space: the layouts that a question leaves open.
#pragma once

#include <functional>
#include <vector>

#include "trireme/planner/search/report/question.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {

// Layouts that share what a screen prices once come one after the other.
struct Family {
  const Parts* parts = nullptr;
  const Traffic* traffic = nullptr;
};

// Calls visit for every layout of the question's GPUs and batch that keeps what is kept. Degrees divide the GPUs and
// the quantities that they share. tp spans at most two hosts or one innermost link; shards stay inside a host or fill
// whole ones. Schedules are those of named orders and of search, without gpipe, which holds more than 1f1b for the same
// time. `away`: state in host memory, where the question does not fix it.
void for_layouts(const Question& question, const Screen& screen, Away away,
                 const std::function<void(const Layout&, const Family&)>& visit);

// Reports why no layout exists, where that is so: which size has no fitting divisor. Throws Error{kUsage}.
[[noreturn]] void refuse_space(const Question& question);

}  // namespace trireme::planner
