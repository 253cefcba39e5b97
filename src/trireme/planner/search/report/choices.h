// The choices that make a layout, one row each: what reasons say and compare follows from the rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/planner/cost/layout.h"
#include "trireme/planner/search/report/question.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {

// Inputs of a layout's neighbours besides the layout.
struct Surroundings {
  const Question& question;
  const Screen& screen;
};

struct ChoiceRow {
  Choice choice;
  std::string_view name;  // "tp", "recompute"
  std::string (*value)(
      const Layout& layout);  // "8", "ZeRO-1", "zb_v"; equal texts are equal choices
  std::string_view key;  // of the job; one that ends with "." is a section; empty: no key says it
  const char*
      label;  // printed next to its value where whole layouts are compared; "": the value alone;
              // null: left out
  bool (*open)(const Layout& layout);                   // whether there is anything to choose
  std::string (*heading)(const Layout& layout);         // "micro-batch 2"; null: name and value
  bool (*same)(const Layout& one, const Layout& twin);  // whether `one` has the value of `twin`
  // Layouts with the nearest other values, dp taking what ranks there are; some may have the same value.
  std::vector<Layout> (*around)(const Layout& layout, const Surroundings& surroundings);
};

std::span<const ChoiceRow> choice_rows();  // by Choice
std::string_view name(Choice choice);
std::string value(const Layout& layout, Choice choice);

}  // namespace trireme::planner
