// Any torch::nn::Module as a node of a program, without being rewritten.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/exec/block.h"

namespace trireme::exec {

// Forward of a user's module: inputs in the order they were named, one output each.
using ModuleForward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

// Builds a Model from modules: one node and one unit each, in the order of add(). The modules' present parameters are
// the initial values (construct them equally on every rank). Modules with buffers that forward changes (batch norm's
// running statistics) are refused, because no unit would hold their state.
class ModuleModel {
 public:
  // `name` is the program's, shown by plans and reports.
  explicit ModuleModel(const std::string& name) { model_.spec.program.name = name; }

  // Names an input that `load` delivers; inputs come in the order of these calls.
  void input(const std::string& name);
  // A node that reads values and writes value `name`. `bytes` of one micro-batch's output feed the
  // memory forecast and may be left 0. A module none of whose parameters requires gradients is frozen:
  // no gradient, no optimizer state. Throws Error{kUsage} when only some of them do.
  void add(const std::string& name, std::shared_ptr<torch::nn::Module> module,
           const std::vector<std::string>& reads, ModuleForward forward, std::int64_t bytes = 0);
  // The last node: returns the sum of losses over the micro-batch.
  void loss(const std::string& name, const std::vector<std::string>& reads, ModuleForward forward);
  Model build() &&;

 private:
  plan::ValueId find(const std::string& name) const;

  Model model_;
};

}  // namespace trireme::exec
