#include "alone.h"

#include "trireme/arch/layout.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/config/resolve.h"
#include "trireme/models/build.h"

namespace trireme::app {
namespace {

config::Job alone(const std::string& yaml, const std::string& what) {
  config::Job job = config::parse_job(yaml, what);
  job.parallel = {};
  job.recompute = {};
  job.offload = {};
  job.run.global_batch = job.run.micro_batch = 1;
  job.run.find_micro_batch = false;
  job.run.memory_limit = {};
  job.vlm.features.clear();
  return config::resolve(job, 1, {.vocab = job.model.vocab});
}

}  // namespace

LoadedModel::LoadedModel(const Path& checkpoint)
    : job_(alone(formats::read_manifest(checkpoint).job, checkpoint.string())),
      local_(1, job_.parallel.comm_timeout_s),
      world_(local_.rank(0)),
      updater_({.betas = job_.optim.betas, .eps = job_.optim.eps}),
      session_(std::make_unique<exec::Session>(
          models::build(job_),
          exec::SessionSetup{.mesh = arch::mesh_of(job_), .recipe = arch::recipe_of(job_)}, *world_,
          updater_)) {
  ckpt::load(checkpoint, session_->units(), session_->model().spec.units, job_.model.weights);
  session_->units().refresh();
}

}  // namespace trireme::app
