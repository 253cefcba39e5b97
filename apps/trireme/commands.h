// The subcommands of `trireme` and their options. Each subcommand returns an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::app {

// Job and number of ranks, common to train and explain.
struct JobOptions {
  std::string file;
  std::string phase;                     // one phase of a job with phases
  std::vector<std::string> assignments;  // "section.key=value"
  std::vector<std::string> allow;        // keys that may differ from those of model.weights
  std::optional<int> ranks;
  std::optional<int> nproc;
};

struct TrainOptions {
  JobOptions job;
  std::optional<std::int64_t> steps;
  std::string resume = "auto";  // auto, never, or a path
  std::string out;
  bool quiet = false;
  bool verbose = false;
  bool baseline = false;
  bool verify_data = false;                // compare digests of all data before the run
  bool calibrate = true;                   // measure this machine if it has no calibration
  std::optional<std::string> help_config;  // a key or section; empty: all of them
  bool allow_faults = false;
  std::string faults;   // to inject: trireme/launch/faults/fault.h
  std::string command;  // the whole command line as typed
};

struct SweepOptions {
  JobOptions job;  // its file is the sweep; assignments apply to every run and override the sweep's
  std::string out;
  int at_once = 1;
  std::string json;  // empty: table and sweep.json only
};

struct LaunchOptions {
  std::string nodes;  // "N" or "MIN:MAX"; empty: from the environment, else 1
  int ranks = 1;      // on each host
  std::string endpoint;
  std::string id;
  std::optional<int> node_rank;
  int max_restarts = 3;
  double join_timeout_s = 600;
  std::string token_file;
  std::vector<std::string> command;  // train JOB ...
  TrainOptions train;                // the parsed command
};

struct ExplainOptions {
  JobOptions job;
  std::string cluster;  // name or file of the forecast's cluster; empty: this machine
  std::string format = "text";
  std::optional<int> rank;     // prints all instructions of this rank
  bool memory = false;         // prints the memory of each rank instead
  std::string fits;            // a size: the exit code reports whether every rank fits
  bool communication = false;  // in csv: the actions that PyTorch adds when it lowers a schedule
  std::string check;           // file of a plan's text to check instead of a job
  std::string as = "today";    // or planned: runtime assumed on GPUs
  std::string json;            // empty: the text only
};

struct PlanOptions {
  JobOptions job;
  std::string cluster;  // a name or a file
  std::optional<int> gpus;
  std::string by = "time";
  bool keep = false;
  int top = 5;
  std::optional<double> tokens;
  std::optional<double> deadline;  // hours
  bool expandable = false;
  std::string format = "table";
  std::string out;           // empty: no file
  std::string as = "today";  // or planned: runtime assumed on GPUs
  std::string json;          // empty: the table only
};

struct CheckpointOptions {
  std::string path;
  std::string json;  // empty: the text only
};

struct CheckpointDiffOptions {
  std::string a;
  std::string b;
  std::string json;  // empty: the text only
};

struct ReshardOptions {
  std::string path;
  std::string to;  // a layout: "tp=2,pp=2"
  std::string out;
};

struct ConvertOptions {
  std::string path;  // checkpoint or Hugging Face model; the files there decide
  std::string out;   // empty with list
  std::vector<std::string>
      assignments;    // keys of a Hugging Face model's job, such as jepa.mask_tokens=2
  bool list = false;  // prints the tensors instead of writing; the path may be a job file
  std::string json;   // with list; empty: the text only
};

struct CheckpointCommands {
  CheckpointOptions look;
  CheckpointDiffOptions diff;
  ReshardOptions reshard;
  ConvertOptions convert;
};

struct PrepareOptions {
  std::vector<std::string> inputs;
  std::vector<std::string> extensions;
  std::string out;
  std::string tokenizer = "bytes";
  std::string validation;  // empty: documents:0.1 for several files, tail:0.1 for one
  std::string end_of_document;
  std::vector<std::string> special;  // added tokens of a learnt vocabulary
  bool binary = false;
  bool force = false;
};

// Options of data synth. Empty or missing values use the default of the kind.
struct SynthOptions {
  std::string kind;  // text, vlm, video, arm
  std::string out;
  std::int64_t count = 1000;
  std::int64_t validation = -1;
  std::int64_t seed = 1;
  std::string task;
  std::optional<std::int64_t> length;
  std::string size;  // vlm: "64" or "64:96"; video and arm: "64x48"
  std::optional<double> aspect;
  std::optional<int> objects;
  std::optional<int> questions;
  std::optional<int> frames;
  std::optional<double> fps;
  std::string format;
  std::optional<std::int64_t> shard;
};

struct DatasetOptions {
  std::string path;
  std::string json;  // empty: the text only
};

struct TokenizerOptions {
  std::string path;  // any file or directory with a vocabulary
  std::string out;   // a tokenizer.json to write; empty: none
  std::string json;  // empty: the text only
};

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  std::string image;  // image in the prompt; empty: no image
  std::int64_t tokens = 400;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::int64_t seed = 1;
  std::string tokenizer;           // "bytes" or a path with a vocabulary; empty: the checkpoint's
  std::vector<std::string> stops;  // texts that end the output
};

struct EvaluateOptions {
  std::string checkpoint;
  std::string data;  // empty: the run's data
  std::string split = "validation";
  std::int64_t batches = 0;  // 0: all
  std::optional<int> ranks;
  std::vector<std::string> assignments;
  std::string json;  // empty: the terminal only
};

struct PredictOptions {
  std::string checkpoint;
  std::vector<std::string> files;
  std::vector<std::string> captions;
  bool embed = false;
  std::int64_t top = 5;
  std::string json;  // empty: the terminal only
};

struct BenchCalibrateOptions {
  int cores = 0;     // 0: all cores
  std::string out;   // empty: the file that forecasts read
  std::string from;  // measurements of an earlier run, instead of measuring
  std::string json;  // empty: no file
};

struct BenchForecastOptions {
  std::string job = "recipes/gpt_s.yaml";
  std::string only;  // part of the names of the layouts to run; empty: all
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
  int depth = 0;     // 0: default of each engine
  std::string json;  // empty: the table only
};

struct BenchKernelsOptions {
  int threads = 1;
  std::string json;  // empty: the table only
};

struct BenchMemoryOptions {
  std::string only;  // part of the names of the jobs to run; empty: all
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
  BenchStepOptions step{.steps = 2, .warmup = 1};  // for every policy
  int rounds = 2;
};

struct DiffOptions {
  JobOptions job;
  std::vector<std::string> layouts;    // "tp=2,zero=3"
  std::optional<std::string> against;  // missing: the first of several layouts, else one rank
  int steps = 2;
  std::string dtype = "fp64";
  std::optional<double> tolerance;  // missing: default of dtype
  std::string json;                 // empty: the tables only
  bool all = false;
};

int train(const TrainOptions& options);
int sweep(const SweepOptions& options);
// Refuses --faults that cannot be parsed or lack --allow-fault-injection, so that faults of a test never reach a
// production run.
void check_faults(const TrainOptions& options);
int launch(const LaunchOptions& options);
int explain(const ExplainOptions& options);
int explain_check(const ExplainOptions& options);
int plan(const PlanOptions& options);
int checkpoint_ls(const CheckpointOptions& options);
int checkpoint_inspect(const CheckpointOptions& options);
int checkpoint_verify(const CheckpointOptions& options);
int checkpoint_diff(const CheckpointDiffOptions& options);
int checkpoint_reshard(const ReshardOptions& options);
int checkpoint_convert(const ConvertOptions& options);
int data_prepare(const PrepareOptions& options);
int data_inspect(const DatasetOptions& options);
int data_verify(const DatasetOptions& options);
int data_tokenizer(const TokenizerOptions& options);
int data_synth(const SynthOptions& options);
int generate(const GenerateOptions& options);
int evaluate(const EvaluateOptions& options);
int predict(const PredictOptions& options);
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
int diff(const DiffOptions& options);
int doctor(const std::string& json);
int stack(int process);
int version();

}  // namespace trireme::app
