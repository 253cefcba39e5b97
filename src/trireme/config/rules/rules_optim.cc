// Optimizers and their states.
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

bool has_matrices(const Job& job) { return matrix_optimizer(job.optim) != nullptr; }

// The optimizer of the job or of a group that updates whole matrices.
Rule for_matrices(std::string_view id, std::string_view needed, std::string_view reason) {
  return {id, needs("optim.name,optim.groups", {needed}, reason, "another optimizer"),
          has_matrices};
}

}  // namespace

std::vector<Rule> optim_rules() {
  return {
      {"int8-tp", needs("optim.states=int8", {"parallel.tp=1"},
                        "tp ranks hold copies of some parameters in different 8-bit blocks, so "
                        "the copies would drift apart")},
      {"int8-master", needs("optim.states=int8", {"precision.master=fp32|bf16"})},
      {"muon-keys",
       only_with("optim.momentum,optim.newton_schulz,optim.update_scale", "optim.name=muon"),
       [](const Job& job) { return !has_matrices(job); }},
      for_matrices("muon-tp", "parallel.tp=1",
                   "updates of muon need whole matrices, of which tp ranks have parts"),
      for_matrices("muon-states", "optim.states=auto", "its states are of the masters' type"),
      for_matrices("muon-master", "precision.master=fp32|fp64",
                   "products of its updates have sums in fp32 at least"),
      for_matrices("muon-device", "run.device=cpu", "its products are written for the CPU"),
  };
}

}  // namespace trireme::config
