// The subcommands of `trireme` and their command-line options. Each returns an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/trireme/run/island_options.h"
#include "apps/trireme/run/relay.h"
#include "trireme/job/runs/read_job.h"

namespace trireme::app {

using runs::JobOptions;

struct TrainOptions {
  JobOptions job;
  std::optional<std::int64_t> steps;
  std::string resume = "auto";  // auto, never, or a path
  std::string out;
  bool quiet = false, verbose = false, baseline = false;
  bool verify_data = false;                // every byte, before the start
  bool calibrate = true;                   // where nothing is known of this machine
  std::optional<std::string> help_config;  // a key or section; empty: all of them
  bool allow_faults = false;
  std::string faults;   // made on purpose: trireme/launch/faults/fault.h
  std::string command;  // all of it, as it was typed
  IslandOptions island;
};

struct SweepOptions {
  JobOptions job;  // whose file is the sweep; assignments are every run's, over the sweep's
  std::string out;
  int at_once = 1;
  std::string json;  // empty: the table and sweep.json only
};

struct LaunchOptions {
  std::string nodes;  // "N" or "MIN:MAX"; empty: as the environment says, else 1
  int ranks = 1;      // of each host
  std::string endpoint;
  std::string id;
  std::optional<int> node_rank;
  int max_restarts = 3;
  double join_timeout_s = 600;
  std::string token_file;
  std::string links;  // a file; empty: none
  RelayUse relay;
  double lost_after_s = 3;
  std::vector<std::string> command;  // train JOB ...
  TrainOptions train;                // the same, understood
};

struct ExplainOptions {
  JobOptions job;
  std::string cluster;  // a name or a file: whose forecast; empty: this machine's
  std::string links;    // a file of measured links of the cluster's hosts; empty: none
  std::string format = "text";
  std::optional<int> rank;     // every line of this rank
  bool memory = false;         // instead: what each rank needs
  std::string fits;            // a size: the exit code says whether every rank fits
  bool communication = false;  // in csv, what PyTorch adds when it lowers a schedule
  std::string check;           // instead of a job: the file of a plan's text
  std::string as = "today";    // or planned: the runtime that is priced on GPUs
  std::string json;            // empty: the text only
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
  std::string path, out;  // from a checkpoint, or Hugging Face's files; out is empty with list
  std::vector<std::string> assignments;  // keys of a Hugging Face model's job
  bool list = false;   // instead: the tensors that would be written; the path may be a job file
  std::string base;    // model of PEFT's adapters; empty: as they name it
  bool merge = false;  // adapters into the weights, instead of files of their own
  std::string json;    // with list; empty: the text only
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
  std::string validation;  // empty: documents:0.1 of several files, tail:0.1 of one
  std::string end_of_document;
  std::vector<std::string> special;  // added tokens of a vocabulary that is learnt
  bool binary = false;
  bool force = false;
};

// Options of data synth. Empty or missing values have the defaults of the kind.
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
  std::string path;  // whatever has a vocabulary
  std::string out;   // a tokenizer.json to write; empty: none
  std::string json;  // empty: the text only
};

struct GenerateOptions {
  std::string checkpoint, prompt;
  std::string image;  // that the prompt asks about; empty: none
  std::int64_t tokens = 400;
  double temperature = 0.8;
  std::int64_t top_k = 0, seed = 1;
  double top_p = 1;
  std::string tokenizer;  // "bytes" or a path that has a vocabulary; empty: the checkpoint's own
  std::vector<std::string> stops;  // texts that end it
  std::string chat;                // a chat template and its options; empty: none
  bool rollout = false;            // token ids and log-probabilities in place of text
};

struct EvaluateOptions {
  std::string checkpoint;
  std::string data, choices;  // empty: the run's own; questions in place of data
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

struct DiffOptions {
  JobOptions job;
  std::vector<std::string> layouts;    // "tp=2,zero=3"
  std::optional<std::string> against;  // missing: the first of several layouts, else one rank
  int steps = 2;
  std::string dtype = "fp64";
  std::optional<double> tolerance;  // missing: dtype's
  std::string json;                 // empty: the tables only
  bool all = false;
};

int train(const TrainOptions& options);
int sweep(const SweepOptions& options);
// Refuses --faults that are no faults or were not allowed: a test's sentence must not reach a run that somebody means.
void check_faults(const TrainOptions& options);
int launch(const LaunchOptions& options);
int explain(const ExplainOptions& options);
int explain_check(const ExplainOptions& options);
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
int diff(const DiffOptions& options);
int doctor(const std::string& json);
int stack(int process);
int version();

}  // namespace trireme::app
