// From a job to a model that can be bound and run.
#pragma once

#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/exec/block.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/model/families/describe.h"

namespace trireme::blocks {

// Where a job's tensors lie. Throws Error{kUsage} where LibTorch has no such device.
at::Device device_of(const config::Job& job);

// The spec and one block a node of a resolved job's family. Blocks compute in precision.compute, with
// norms' statistics, softmax and loss in fp32 where that is bf16 or fp16. Throws Error{kUsage} for a compute type
// that no block has, and for fp16 on a CPU of families that have no kernels for it there.
exec::Model build(const config::Job& job);
// This rank's part where the job has tp or cp, for tensors on device_of(job). Collective over the world,
// which must outlive the model.
exec::Model build(const config::Job& job, comm::World& world);

// One block for each node of `spec`, which describes `job`.
using MakeBlocks = Blocks (*)(const config::Job& job, const model::ModelSpec& spec,
                              const Ranks& ranks);
// A model that is in no table of families.
struct OwnModel {
  model::DescribeRank describe;
  MakeBlocks make;
};
// As build(job, world) of a model that is no family's; keys and checks are those of the job's family.
exec::Model build(const config::Job& job, comm::World& world, const OwnModel& own);

}  // namespace trireme::blocks
