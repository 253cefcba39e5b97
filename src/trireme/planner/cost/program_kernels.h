// The kernels of a program's nodes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "trireme/model/node_types.h"
#include "trireme/model/spec.h"
#include "trireme/planner/cost/expected_share.h"
#include "trireme/planner/cost/layer_kernels.h"

namespace trireme::planner {

// Operations that the model states are lowered. Of other nodes every matrix is a linear layer, on as many rows as the
// node's FLOPs make, and the rest streams the bytes that they read, write and keep. Rows that vary count as expected.
class ProgramKernels {
 public:
  // `job` is resolved. All must outlive this.
  ProgramKernels(const config::Job& job, const model::ModelSpec& model, const Practice& practice);

  NodeKernels of(const std::string& node) const;
  // The first node that has the same kernels.
  std::size_t like(const std::string& node) const { return like_[index_of(node)]; }
  DType type_of(const std::string& node) const { return type_of(index_of(node)); }
  double share_of(const std::string& node) const { return shares_.of(node); }
  // Operations of a node's forward, of the rows that are expected.
  double flops_of(const std::string& node) const;

 private:
  struct Linear {
    double in, out;
    bool trains;
  };
  std::size_t index_of(const std::string& node) const;
  DType type_of(std::size_t node) const;
  std::vector<Linear> linear_layers(std::size_t node) const;
  NodeKernels of_matrices(std::size_t node, const NodeNumbers& numbers) const;
  bool reached(const plan::Node& node) const;
  // Bytes that a node streams, at most.
  double moved(const plan::Node& node) const;

  const config::Job& job_;
  const model::ModelSpec& model_;
  const Practice& practice_;
  plan::GradientFlow flow_;
  ExpectedShare shares_;
  model::NodeTypes types_;
  std::map<std::string, std::size_t, std::less<>> nodes_;
  std::vector<std::size_t> like_;
};

// The model of a resolved job without recomputation, which changes no kernel and takes time to choose.
model::ModelSpec priced_model(config::Job job);

}  // namespace trireme::planner
