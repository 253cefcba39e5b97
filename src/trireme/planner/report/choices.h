// The choices that make a layout, one row each: what reasons say and compare follows from the rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/planner/cost/layout.h"
#include "trireme/planner/report/question.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {

// Inputs of a layout's neighbours besides the layout.
struct Surroundings {
  const Question& question;
  const Screen& screen;
};

struct ChoiceRow {
  Choice choice;
  std::string_view key;  // of the job; one that ends with "." is a section; empty: no key says it
  const char*
      label;  // printed next to its value where whole layouts are compared; "": the value alone;
              // null: left out
  bool (*open)(const Layout& layout);                   // whether there is anything to choose
  std::string (*heading)(const Layout& layout);         // "tp 8", "micro-batch 2"
  bool (*same)(const Layout& one, const Layout& twin);  // whether `one` has the value of `twin`
  // Layouts with the nearest other values, dp taking what ranks there are; some may have the same value.
  std::vector<Layout> (*around)(const Layout& layout, const Surroundings& surroundings);
};

// By Choice: all but the number of GPUs.
std::span<const ChoiceRow, kChoices> choice_rows();

}  // namespace trireme::planner
