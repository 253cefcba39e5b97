// Space: the layouts that a question leaves open.
#pragma once

#include <functional>
#include <vector>

#include "trireme/planner/report/question.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {

// Layouts that share what a screen prices once come one after the other.
struct Family {
  const Parts* parts = nullptr;
  const Traffic* traffic = nullptr;
};

// Calls visit for every layout of the question's GPUs and batch that keeps what is kept. Degrees divide the GPUs and what they
// share out; tp spans at most two hosts or one innermost link; shards stay inside a host or fill whole ones; of schedules those
// that a named order or search makes, but gpipe, which holds more than 1f1b for the same time. `away`: what waits in host memory,
// where that is not kept.
void for_layouts(const Question& question, const Screen& screen, Away away,
                 const std::function<void(const Layout&, const Family&)>& visit);

// Why no layout exists, where there is none: what divides by nothing. Throws Error{kUsage}.
[[noreturn]] void refuse_space(const Question& question);

}  // namespace trireme::planner
