#include "alone.h"

#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/make_optimizer.h"

namespace trireme::app {
namespace {

config::Job alone(const std::string& yaml, const std::string& what, std::int64_t context,
                  LoadedModel::Ends ends) {
  config::Job job = config::parse_job(yaml, what);
  if (context > 0) job.model.seq_len = context;
  config::keep_one_rank(job);
  job.run.global_batch = job.run.micro_batch = 1;
  if (ends == LoadedModel::Ends::kAnswers) {
    job.data = {.source = config::DataSource::kPreferences, .path = what};
    job.preference = {.loss =
                          config::PreferenceLoss::kSimpo};  // which compares with no other model
  }
  return config::resolve(job, 1, {.vocab = job.model.vocab});
}

}  // namespace

void load_parameters(const Path& checkpoint, const formats::Manifest& manifest, const Path& base,
                     exec::Session& session) {
  const std::vector<model::UnitSpec>& units = session.model().spec.units;
  if (manifest.base.empty())
    checkpoint::load_weights(checkpoint, session.units(), units);
  else
    checkpoint::load(checkpoint, session.units(), units, base);
  session.units().refresh();
}

LoadedModel::LoadedModel(const Path& checkpoint, std::int64_t context, Ends ends)
    : LoadedModel(checkpoint, convert::manifest_of_weights(checkpoint), context, ends) {}

LoadedModel::LoadedModel(const Path& checkpoint, const formats::Manifest& manifest,
                         std::int64_t context, Ends ends)
    : job_(alone(manifest.job, checkpoint.string(), context, ends)),
      local_(1, job_.parallel.comm_timeout_s),
      world_(local_.rank(0)),
      optimizer_(optim::make_optimizer(job_)),
      session_(std::make_unique<exec::Session>(
          blocks::build(job_),
          exec::SessionSetup{.mesh = model::mesh_of(job_), .recipe = model::recipe_of(job_)},
          *world_, *optimizer_)) {
  load_parameters(checkpoint, manifest, job_.model.weights, *session_);
}

}  // namespace trireme::app
