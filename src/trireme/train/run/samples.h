// The samples of a job that does not keep what it learns from them.
#pragma once

#include <cstdint>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

// Micro-batches of `count` samples of a resolved job: of its own data, or of text without a `dataset` random tokens.
JobSession::Load load_of(const config::Job& job, std::int64_t count, const Path& dataset = {});

}  // namespace trireme::train
