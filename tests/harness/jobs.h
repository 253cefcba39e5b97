// Runs a few steps of a job on any mesh, ranks as threads, and puts together what all ranks hold.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/exec/block.h"

namespace trireme::harness {

struct JobTrace {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<std::vector<exec::Counts::Count>>
      counts;  // of each step, in the order of the model's metrics
  std::map<std::string, std::vector<double>> states;  // "PARAMETER KIND", whole, as doubles
  double replicas_apart = 0;  // largest relative difference of an element that several ranks hold
};

// `job` with its degrees set; samples of text are random tokens, a function of their number, others those of the job's
// own source. A vocabulary of 0 is 256. A job of one rank ends early once `learned` of its trace is true.
JobTrace run_job(const config::Job& job, int steps,
                 const std::function<bool(const JobTrace&)>& learned = {});
// The same with a model of one's own in place of the family's.
using BuildModel = std::function<exec::Model(const config::Job& job, comm::World& world)>;
JobTrace run_job(const config::Job& job, int steps, const BuildModel& build,
                 const std::function<bool(const JobTrace&)>& learned = {});

// The ranks of a job with its degrees set, and the job resolved for them.
int world_of(const config::Job& job);
config::Job resolved(const config::Job& job);

// The loss of the first global batch with the parameters that `job` begins with, as every rank gives it.
std::vector<double> evaluate_job(const config::Job& job);

// Largest relative difference of losses and norms, and of states by tensor (Euclidean).
double distance(const JobTrace& a, const JobTrace& b);

}  // namespace trireme::harness
