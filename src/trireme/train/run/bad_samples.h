// Unusable parts of a user's files, reported once each.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/data/loaders/source.h"
#include "trireme/exec/block.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

class BadSamples {
 public:
  // All of them must outlive it.
  BadSamples(const config::Job& job, const loaders::Sources& sources, const exec::Model& model,
             comm::World& world, const Callbacks& callbacks)
      : job_(job), sources_(sources), model_(model), world_(world), callbacks_(callbacks) {}

  // Whether there can be any.
  bool possible() const;
  // Samples, and entries of vlm.features, that any rank has found and that were not reported: the first kNamed as a
  // fault each, with file and cause, and the number of the others. Collective.
  void report(std::int64_t step);

  static constexpr std::size_t kNamed = 100;

 private:
  void report(std::int64_t step, const char* kind, const char* action, const std::string& own);

  const config::Job& job_;
  const loaders::Sources& sources_;
  const exec::Model& model_;
  comm::World& world_;
  const Callbacks& callbacks_;
  std::set<std::string> reported_;
};

}  // namespace trireme::train
