// The commands of `trireme bench`, their command-line options, and their requests to the worker. A request is one
// object of JSON, so that nothing is parsed twice.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/trireme/commands.h"

namespace trireme::app {

struct BenchCalibrateOptions {
  int cores = 0;     // 0: all there are
  std::string out;   // empty: where forecasts look for it
  std::string from;  // measurements of an earlier run, instead of measuring
  std::string json;  // empty: measurements are not kept
};

struct BenchForecastOptions {
  std::string job;                                        // empty: the sweep's
  std::string variants = "recipes/sweeps/forecast.yaml";  // a sweep
  std::string only;  // part of the names of its runs; empty: all
  int steps = 4;
  int warmup = 1;
  std::string json;  // empty: the table only
};

struct BenchCollectivesOptions {
  std::vector<int> ranks = {2, 4};
  std::string json;  // empty: the table only
};

struct BenchContextOptions {
  std::vector<int> ranks = {2, 4};
  std::vector<std::int64_t> tokens = {2048, 8192, 32768};
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 64;
  std::string json;  // empty: the table only
};

struct BenchDiskOptions {
  std::string dir = ".";
  std::int64_t mib = 512;
  int repeats = 5;
  int depth = 0;     // 0: each engine's own
  std::string json;  // empty: the table only
};

struct BenchKernelsOptions {
  int threads = 1;
  std::string json;  // empty: the table only
};

struct BenchMemoryOptions {
  std::vector<std::string> variants;  // sweeps; empty: those of recipes/sweeps
  std::string only;                   // part of the names of their runs; empty: all
  int steps = 2;
  std::string json;  // empty: the table only
};

struct BenchPipelineOptions {
  int ranks = 4;
  int micro_batches = 8;
  double ms = 20;
  int steps = 3;
  std::vector<std::string> schedules;  // empty: all
  std::string json;                    // empty: the table only
};

struct BenchStepOptions {
  JobOptions job;
  int steps = 5;
  int warmup = 2;
  std::string device;  // empty: the job's
  std::string json;    // empty: the table only
};

struct BenchRecomputeOptions {
  BenchStepOptions step{.steps = 2, .warmup = 1};  // of every policy
  std::string variants = "recipes/sweeps/recompute.yaml";
  int rounds = 2;
};

// A job in one of its variants.
struct BenchJob {
  std::string name;
  int ranks = 1;    // as threads
  std::string job;  // resolved, as YAML
};

struct BenchMemoryRequest {
  std::vector<BenchJob> jobs;
  int steps = 2;
  std::string json;
};

// Steps of a job, or of several in turn.
struct BenchStepRequest {
  std::vector<BenchJob> jobs;
  int steps = 1;
  int warmup = 0;
  int rounds = 1;
  int ranks = 1;  // as threads of the worker
  std::string peaks;
  std::string json;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchCollectivesOptions, ranks, json)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchContextOptions, ranks, tokens, heads, kv_heads, head_dim,
                                   json)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchKernelsOptions, threads, json)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchPipelineOptions, ranks, micro_batches, ms, steps, schedules,
                                   json)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchJob, name, ranks, job)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchMemoryRequest, jobs, steps, json)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchStepRequest, jobs, steps, warmup, rounds, ranks, peaks,
                                   json)

int bench_calibrate(const BenchCalibrateOptions& options);
int bench_collectives(const BenchCollectivesOptions& options);
int bench_context(const BenchContextOptions& options);
int bench_disk(const BenchDiskOptions& options);
int bench_forecast(const BenchForecastOptions& options);
int bench_kernels(const BenchKernelsOptions& options);
int bench_memory(const BenchMemoryOptions& options);
int bench_pipeline(const BenchPipelineOptions& options);
int bench_recompute(const BenchRecomputeOptions& options);
int bench_step(const BenchStepOptions& options);

}  // namespace trireme::app
