// Where numbers that are not finite begin.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/exec/observer.h"
#include "trireme/plan/program.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

// Looks at what every forward writes and at every micro-batch's gradient before it is added to others.
class NonFiniteFinder final : public exec::Observer {
 public:
  explicit NonFiniteFinder(const plan::Program& program) : program_(program) {}

  void on_activation(plan::ValueId value, std::int64_t micro_batch,
                     const at::Tensor& tensor) override;
  void on_micro_batch_gradient(const exec::Units& units, plan::UnitId unit,
                               std::int64_t micro_batch, const at::Tensor& flat) override;
  void on_gradients(const exec::Units& units) override;

  // The first of them on this rank; empty: all are finite.
  const std::string& found() const { return found_; }

 private:
  const plan::Program& program_;
  std::string found_;
};

// Where they begin: the first rank that has some before sums go over ranks.
struct NonFinite {
  int rank = -1;  // -1: the repeated step is finite everywhere
  std::string host;
  std::string what;
};

// Runs the step again without an update. Collective; the same on every rank.
NonFinite find_non_finite(JobSession& session, std::int64_t step, const JobSession::Load& load,
                          comm::World& world);

}  // namespace trireme::train
