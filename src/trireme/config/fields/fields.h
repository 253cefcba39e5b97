// The one list of job keys: parsing, --set, printing, diff, resume checks and docs come from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/values/field.h"

namespace trireme::config {

struct Field : FieldOf<Job> {
  bool fixed = false;  // may not change when a run resumes
  bool inherited =
      false;  // a job that leaves it out has the value of the weights that its model begins with
  bool compared = false;  // weights compute another function under another value

  std::string_view section() const { return std::string_view(key).substr(0, key.find('.')); }
  std::string_view name() const { return std::string_view(key).substr(key.find('.') + 1); }
};

// All fields, grouped by section, in the order in which they are printed.
const std::vector<Field>& fields();

// The sections in that order.
std::vector<std::string_view> sections();

// The field called `key`, or null.
const Field* find_field(std::string_view key);

// "did you mean A or B?" for an unknown key, with or without a section; else the names there are.
std::string suggest(std::string_view unknown);

}  // namespace trireme::config
