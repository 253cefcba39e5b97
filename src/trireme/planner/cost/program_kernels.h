// The kernels of any program's nodes, from what arch says of them: parameters, values and operations.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/model/spec.h"
#include "trireme/planner/cost/expected_share.h"
#include "trireme/planner/cost/layer_kernels.h"

namespace trireme::planner {

// Every matrix among a node's parameters is a linear layer, on as many rows as its operations make. A block, which
// overwrites its input, applies them to all its rows. Its operations beyond those of its layers are attention. The rest
// of its work streams the bytes that it reads, writes and keeps. The decoder of a vision-language model has the kernels
// of one. Rows that vary count as expected.
class ProgramKernels {
 public:
  // `job` is resolved, and no decoder's alone; it must outlive this.
  ProgramKernels(const config::Job& job, const Practice& practice);

  NodeKernels of(const std::string& node) const;
  DType type_of(const std::string& node) const;
  double share_of(const std::string& node) const { return shares_.of(node); }
  // Operations of a node's forward, of the rows that are expected.
  double flops_of(const std::string& node) const;

 private:
  struct Layers;
  Layers layers_of(std::size_t node) const;
  // Expected work of a node: rows of its layers, rows that a block sees, and operations in addition to those of its
  // layers.
  struct Expected {
    bool block = false;
    double rows = 0, seen = 0, attended = 0;
  };
  Expected expected(std::size_t node, const Layers& layers) const;
  NodeKernels program_node(std::size_t node) const;
  bool decodes(const std::string& node) const;

  const config::Job& job_;
  const Practice& practice_;
  model::ModelSpec model_;
  plan::GradientFlow flow_;
  ExpectedShare shares_;
  model::NodeTypes types_;
  std::map<std::string, std::size_t, std::less<>> nodes_;
  std::optional<config::Job> decoder_;  // the language model within
};

}  // namespace trireme::planner
