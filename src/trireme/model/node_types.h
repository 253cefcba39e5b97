// Which nodes compute in a type of their own: precision.nodes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/plan/program.h"

namespace trireme::model {

class NodeTypes {
 public:
  // `text` is precision.nodes. Throws Error{kUsage} where it names no types, or some that do not go with `compute`.
  NodeTypes(DType compute, std::string text);

  // Type of the node called `name`: that of the last matching pattern; else `compute`.
  DType of(const std::string& name) const;

  // Gives units the type of their nodes. Throws Error{kUsage} for a pattern that fits no node, and for a unit whose
  // nodes have several types.
  void apply(plan::Program& program) const;

 private:
  struct Rule {
    std::string pattern;
    DType type;
  };
  DType compute_;
  std::string text_;
  std::vector<Rule> rules_;
};

}  // namespace trireme::model
