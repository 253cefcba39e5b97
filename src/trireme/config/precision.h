// Precision and Network: number types of a job, and how its sums of gradients are added and sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/comm/algorithm/algorithm.h"

namespace trireme::config {

enum class Numerics { kCanonical, kFast };

// Optional values are set in a resolved job, where loss_scale is off, dynamic or a number.
struct Precision {
  DType compute = DType::kF32;
  bool compute_auto = false;    // take what is fast where ranks compute; false in a resolved job
  std::optional<DType> master;  // what the optimizer steps
  std::optional<DType> grads;   // what gradients accumulate in
  std::optional<DType> reduce;  // what gradients travel in
  std::string nodes;            // "head=fp32,block.0=fp32": compute types of their own
  std::string loss_scale = "auto";
  Numerics numerics = Numerics::kCanonical;
  std::int64_t group = 0;  // micro-batches that canonical sums add in a row; 0: kSumGroups groups
  bool operator==(const Precision&) const = default;
};

// Sums of gradients and parameters between ranks; codecs are texts of comm/codec.
struct Network {
  std::string codec = "none";  // "q4:bf16/q8": the type of residuals, and the codec of the way back
  std::int64_t senders = 0;    // 0: as many as ranks, or replicas of sharded units
  std::string gather = "none";  // "q8:4": ranks of a host, which keep the codes
  algorithm::Kind algorithm = algorithm::Kind::kAuto;
  std::string outer = "none";  // "islands:2,every:30": settings of config/resolve/outer_steps.h
  std::string nccl;  // "algo=Ring,ib_hca=mlx5_0": settings of config/values/nccl_settings.h
  bool operator==(const Network&) const = default;
};

}  // namespace trireme::config
