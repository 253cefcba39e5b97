#include "tests/harness/jobs.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tests/harness/job_states.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/source.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/train/job_session.h"

namespace trireme::harness {
namespace {

double relative(double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  return scale == 0 ? 0 : std::abs(a - b) / scale;
}

// Random tokens for text; what the job's own source generates or reads from data.path for the rest.
class Samples {
 public:
  explicit Samples(const config::Job& job) : job_(job) {
    if (job.data.source != config::DataSource::kText)
      source_ = loaders::open_sources(job, job.data.path).train;
  }
  train::JobSession::Load load() const {
    if (source_ == nullptr)
      return [this](std::int64_t first) {
        return loaders::random_tokens(first, job_.run.micro_batch, job_.model.seq_len,
                                      job_.model.vocab, job_.data.documents);
      };
    return {[this](std::int64_t first) { return source_->batch(first, job_.run.micro_batch); },
            [this](std::int64_t first, std::int64_t all) { return source_->weight(first, all); }};
  }

 private:
  const config::Job& job_;
  std::unique_ptr<loaders::Source> source_;
};

}  // namespace

int world_of(const config::Job& job) {
  return job.parallel.pp * std::max(1, job.parallel.dp_shard) * job.parallel.dp_replicate *
         job.parallel.cp * job.parallel.tp;
}

config::Job resolved(const config::Job& job) {
  const config::SyntheticSource* known = config::synthetic_source(job.data.source);
  return config::resolve(job, world_of(job),
                         known != nullptr
                             ? known->facts
                             : config::DatasetFacts{.vocab = job.model.vocab == 0 ? 256 : 0});
}

void place_states(exec::Session& session, JobTrace& trace) {
  const exec::Units& units = session.units();
  for (const exec::StateSlice& slice : units.local_slices()) {
    if (slice.block > 1) continue;  // scales of codes, which are compared
    const model::UnitSpec& spec = session.model().spec.units[slice.unit];
    const at::Tensor values = units.read(slice).to(at::kDouble).contiguous();
    const auto within =
        model::extents_within(spec, units.tp_rank(), units.tp(), slice.offset, values.numel());
    for (std::size_t p = 0; p < within.size(); ++p) {
      auto& state = trace.states[spec.params[p].name + " " + slice.kind];
      state.resize(static_cast<std::size_t>(spec.params[p].numel()), NAN);
      for (const model::Extent& extent : within[p])
        for (std::int64_t i = 0; i < extent.count; ++i) {
          double& element = state[extent.global + i];
          const double value = values.data_ptr<double>()[extent.local + i];
          if (!std::isnan(element))
            trace.replicas_apart = std::max(trace.replicas_apart, relative(element, value));
          element = value;
        }
    }
  }
}

std::vector<double> evaluate_job(const config::Job& job) {
  const config::Job own = resolved(job);
  std::vector<double> losses(static_cast<std::size_t>(world_of(job)));
  comm::run_local_ranks(world_of(job), 120, [&](comm::World& rank) {
    train::JobSession session(own, rank);
    const Samples samples(own);
    losses[rank.rank()] = session.evaluate(0, 0, samples.load()).loss;
  });
  return losses;
}

JobTrace run_job(const config::Job& job, int steps,
                 const std::function<bool(const JobTrace&)>& learned) {
  const auto build = [](const config::Job& own, comm::World& world) {
    return blocks::build(own, world);
  };
  return run_job(job, steps, build, learned);
}

JobTrace run_job(const config::Job& job, int steps, const BuildModel& build,
                 const std::function<bool(const JobTrace&)>& learned) {
  const config::Job own = resolved(job);
  JobTrace trace;
  std::mutex mutex;
  comm::run_local_ranks(world_of(job), 120, [&](comm::World& rank) {
    train::JobSession session(own, rank, build(own, rank));
    const Samples samples(own);
    const train::JobSession::Load load = samples.load();
    for (int step = 0; step < steps; ++step) {
      const exec::StepResult result = session.train(step, false, load);
      if (rank.rank() > 0) continue;
      trace.losses.push_back(result.loss);
      trace.grad_norms.push_back(result.grad_norm);
      trace.counts.push_back(result.counts);
      if (rank.size() == 1 && learned && learned(trace)) break;
    }
    std::lock_guard lock(mutex);
    place_states(session.session(), trace);
  });
  return trace;
}

double distance(const JobTrace& a, const JobTrace& b) {
  double largest = std::max(a.replicas_apart, b.replicas_apart);
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, relative(a.losses[i], b.losses[i]));
    largest = std::max(largest, relative(a.grad_norms[i], b.grad_norms[i]));
  }
  for (const auto& [name, state] : a.states) {
    const std::vector<double>& other = b.states.at(name);
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < state.size(); ++i) {
      difference += (state[i] - other[i]) * (state[i] - other[i]);
      norm += state[i] * state[i];
    }
    if (norm > 0) largest = std::max(largest, std::sqrt(difference / norm));
    if (std::isnan(difference)) return INFINITY;
  }
  return largest;
}

}  // namespace trireme::harness
