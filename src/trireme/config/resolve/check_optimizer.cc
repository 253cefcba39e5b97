#include "trireme/config/resolve/check_optimizer.h"

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

void check_matrix_updates(const Job& job) {
  const OptimizerInfo* const by_matrix = matrix_optimizer(job.optim);
  if (by_matrix == nullptr) {
    if (job.optim.muon != MuonSettings{})
      fail(ErrorKind::kUsage,
           "optim.momentum, optim.newton_schulz and optim.update_scale are of optim.name=muon, and "
           "this job has optim.name={}; set optim.name=muon, or leave them out",
           info(job.optim.name).key);
    return;
  }
  const auto refuse = [&](const std::string& seen, std::string_view why, std::string_view needed) {
    fail(ErrorKind::kUsage, "optimizer {} with {}: {}; set {}", by_matrix->key, seen, why, needed);
  };
  if (job.parallel.tp > 1)
    refuse(fmt::format("parallel.tp={}", job.parallel.tp),
           "its updates need whole matrices, of which tp ranks have parts",
           "parallel.tp=1, or another optimizer");
  if (job.optim.states != OptimizerStates::kMaster)
    refuse("optim.states=int8", "its states are of the masters' type", "optim.states=auto");
  if (job.precision.master == DType::kBF16 || job.precision.master == DType::kF16)
    refuse(fmt::format("precision.master={}", name(*job.precision.master)),
           "products of its updates have sums in fp32 at least", "precision.master=fp32");
  if (job.run.device == Device::kCuda)
    refuse("run.device=cuda", "its products are written for the CPU", "another optimizer");
}

void check_states(const Job& job) {
  if (job.optim.states == OptimizerStates::kMaster) return;
  if (job.parallel.tp > 1)
    fail(ErrorKind::kUsage,
         "optim.states=int8 with parallel.tp={}: tp ranks hold copies of some parameters in "
         "different 8-bit blocks, so the copies would drift apart; set optim.states=auto or "
         "parallel.tp=1",
         job.parallel.tp);
  if (job.precision.master == DType::kF64)
    fail(ErrorKind::kUsage,
         "optim.states=int8 with precision.master=fp64: 8-bit states need fp32 or bf16 masters; "
         "set optim.states=auto");
}

}  // namespace

const OptimizerInfo* matrix_optimizer(const Optim& optim) {
  if (info(optim.name).by_matrix()) return &info(optim.name);
  for (const ParamGroup& group : optim.groups)
    if (group.name && info(*group.name).by_matrix()) return &info(*group.name);
  return nullptr;
}

const OptimizerInfo& elementwise(const Optim& optim) {
  return info(info(optim.name).by_matrix() ? kElementwise : optim.name);
}

void check_optimizer(const Job& job) {
  check_states(job);
  check_matrix_updates(job);
}

}  // namespace trireme::config
