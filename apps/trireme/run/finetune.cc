#include "finetune.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/trireme/bench/calibration.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/summary.h"
#include "trireme/base/error.h"
#include "trireme/base/free_memory.h"
#include "trireme/base/json.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/convert/peft_weights.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/sections/chat.h"
#include "trireme/config/weights.h"
#include "trireme/data/chat/pack.h"
#include "trireme/data/chat/rollouts.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/search/report/answer_print.h"
#include "trireme/planner/search/search.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

bool given(const FinetuneOptions& options, std::string_view key) {
  return std::ranges::any_of(options.job.assignments, [&](std::string_view assignment) {
    if (assignment.starts_with("--")) assignment.remove_prefix(2);
    return assignment.substr(0, assignment.find('=')) == key;
  });
}

// Before anything is read: what no model could repair.
void check(const FinetuneOptions& options) {
  std::error_code cause;
  if (!fs::is_directory(options.model, cause))
    fail(ErrorKind::kData,
         "{}: no such directory; finetune needs a Hugging Face directory with config.json, tensors "
         "and tokenizer",
         options.model);
  convert::refuse_peft(options.model);
  if (!convert::is_hugging_face(options.model))
    fail(ErrorKind::kData,
         "{}: has no config.json, so it is not a Hugging Face directory. To begin with a run of "
         "Trireme, set model.weights in a job (docs/lora.md)",
         options.model);
  if (!fs::exists(options.data, cause))
    fail(ErrorKind::kData,
         "{}: no such file or directory; finetune needs a .jsonl file of conversations or compared "
         "answers, one a line",
         options.data);
  if (find_place({}, {}).launched())
    fail(ErrorKind::kUsage,
         "finetune under another program's launcher: it starts its own ranks. Write the job with "
         "--dry-run, then start trireme train there");
}

// One of twenty is held out, at most 500; none of a few.
std::int64_t held_out(const std::string& data) {
  constexpr std::int64_t kFew = 40, kOneOf = 20, kMost = 500;
  std::int64_t lines = 0;
  for (const text::SourceFile& source : text::collect_sources({data}, {".jsonl"})) {
    const std::string text = read_file(source.path);
    lines += std::ranges::count(text, '\n');
  }
  return lines < kFew ? 0 : std::min(lines / kOneOf, kMost);
}

constexpr std::string_view kPolicy = "preference.loss=grpo";

// The source of samples by the first one: pairs of answers and answers with labels are compared, answers with rewards are
// rollouts, others are learned.
std::vector<std::string> source_of(const std::string& data) {
  for (const text::SourceFile& source : text::collect_sources({data}, {".jsonl"})) {
    const std::string text = read_file(source.path);
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == text.npos) continue;
    const std::string_view line =
        std::string_view(text).substr(begin, text.find('\n', begin) - begin);
    const auto number = 1 + std::ranges::count(std::string_view(text).substr(0, begin), '\n');
    const std::string what = fmt::format("{}:{}", source.path.string(), number);
    const Json sample = parse_json(line, what);
    if (sample.contains("chosen")) return {"data.source=preferences"};
    if (sample.contains("label")) return {"data.source=preferences", "preference.loss=kto"};
    if (chat::has_rollouts(line, what)) return {"data.source=preferences", std::string(kPolicy)};
    break;
  }
  return {"data.source=chat"};
}

// Adapters take ten times the learning rate of all parameters (Schulman et al. 2025), and comparisons a twentieth of that
// of conversations. Rollouts are of this model, and the next ones judge it: none is held out.
std::vector<std::string> recipe(const FinetuneOptions& options) {
  std::vector<std::string> keys = source_of(options.data);
  const bool chats = keys[0] == "data.source=chat", rollouts = keys.back() == kPolicy;
  const auto rate = [&](std::string_view of_all, std::string_view of_adapters) {
    return options.full ? of_all : of_adapters;
  };
  keys.insert(keys.end(),
              {"model.weights=" + fs::absolute(options.model).string(), "data.path=" + options.data,
               fmt::format("data.validation={}", rollouts ? 0 : held_out(options.data)),
               fmt::format("optim.lr={}", chats ? rate("2e-5", "2e-4") : rate("1e-6", "1e-5")),
               fmt::format("optim.min_lr={}", chats ? rate("2e-6", "2e-5") : rate("1e-7", "1e-6")),
               "optim.weight_decay=0", "checkpoint.keep_last=2"});
  if (!options.full)
    keys.insert(keys.end(),
                {fmt::format("lora.rank={}", options.rank),
                 fmt::format("lora.alpha={}", 2 * options.rank), "checkpoint.trainable_only=true"});
  return keys;
}

// The recipe with the user's keys over it. Sizes that depend on the data are not yet chosen.
config::Job begun(const FinetuneOptions& options) {
  JobOptions ours = options.job;
  ours.file = job_in_memory("{}");
  ours.assignments = recipe(options);
  ours.assignments.insert(ours.assignments.end(), options.job.assignments.begin(),
                          options.job.assignments.end());
  config::Job job = with_absolute_paths(read_job(ours));
  if (!config::info(job).packs_conversations)
    fail(
        ErrorKind::kUsage,
        "{}: is a model of family {}, and finetune trains decoders on conversations; train it with "
        "a job whose model.weights names it",
        (Path(options.model) / convert::kConfigName).string(), config::name(job.model.family));
  if (!given(options, "data.tokenizer") && !convert::vocabulary_of_weights(options.model, job))
    fail(ErrorKind::kData,
         "{}: has no tokenizer.json, tokenizer.model or vocabulary.json; download the model's "
         "tokenizer too, or name one with data.tokenizer=PATH",
         options.model);
  return job;
}

// Conversations or comparisons as rows of the model.
struct Rows {
  std::string_view of;       // what a row has some of
  std::int64_t longest = 0;  // tokens of one without its last
  std::int64_t places = 0;   // that conversations take
  std::int64_t count = 0;
};

// Of `each` documents that lie in one row.
std::int64_t longest_of(const text::TokenFile& tokens, std::int64_t each) {
  std::int64_t longest = 0;
  for (std::int64_t k = 0; k + each <= tokens.documents(); k += each) {
    std::int64_t all = 0;
    for (std::int64_t i = 0; i < each; ++i) all += tokens.document(k + i).count - 1;
    longest = std::max(longest, all);
  }
  return longest;
}

// A row holds the longest conversation, and the rest of it others.
Rows choose_rows(const FinetuneOptions& options, const text::Dataset& data, config::Job& job) {
  const config::Chat::Long longer = config::parse_chat(job.data.chat).longer;
  const std::int64_t positions = job.model.seq_len;
  const bool preferences = job.data.source == config::DataSource::kPreferences;
  const config::Compares compares = config::compares(job.preference.loss);
  const std::int64_t each = preferences ? chat::documents_of(compares) : 1;
  Rows rows{.of = each == 2     ? "comparison"
                  : preferences ? "answer"
                                : "conversation",
            .longest = std::max(longest_of(data.train, each), longest_of(data.val, each))};
  if (rows.longest > positions && longer == config::Chat::Long::kRefuse)
    fail(ErrorKind::kData,
         "{}: a {} has {} tokens, and model.seq_len={}{}. Shorten it, or add data.chat='{} "
         "long=cut'{}",
         options.data, rows.of, rows.longest, positions,
         given(options, "model.seq_len") ? "" : ", the positions of config.json", job.data.chat,
         preferences ? "" : " or long=split");
  // A table of learned positions keeps its size.
  if (!given(options, "model.seq_len") && config::is_rotary(job)) {
    const std::int64_t multiple = rows.longest < 256 ? 16 : 64;
    job.model.seq_len = std::min(positions, (rows.longest + multiple - 1) / multiple * multiple);
  }
  for (const auto& row : preferences
                             ? chat::packed_samples(compares, data.train, job.model.seq_len, longer)
                             : chat::packed_documents(data.train, job.model.seq_len, longer)) {
    ++rows.count;
    for (const chat::PackedPiece& piece : row) rows.places += piece.count;
  }
  return rows;
}

// At most 16 rows, and eight or more steps an epoch where there are enough. Ranks divide it if it is not much smaller
// than they are many.
std::int64_t batch_of(std::int64_t rows, int ranks) {
  constexpr std::int64_t kMost = 16, kSteps = 8;
  const auto eighth = static_cast<std::uint64_t>(std::max<std::int64_t>(rows / kSteps, 1));
  const auto batch = std::min(kMost, static_cast<std::int64_t>(std::bit_floor(eighth)));
  return ranks > kMost ? batch : (batch + ranks - 1) / ranks * ranks;
}

void choose_steps(const FinetuneOptions& options, const Rows& rows, int ranks, config::Job& job) {
  constexpr std::int64_t kWarmUp = 20, kMostWarmUp = 100;  // one of so many steps
  constexpr std::int64_t kLooks = 5;                       // checkpoints and validations
  const bool rollouts = job.data.source == config::DataSource::kPreferences &&
                        config::rewards_answers(job.preference.loss);
  const double epochs = options.epochs.value_or(rollouts ? 1 : 3);
  if (!given(options, "run.global_batch")) job.run.global_batch = batch_of(rows.count, ranks);
  if (options.steps)
    job.run.steps = *options.steps;
  else if (!given(options, "run.steps"))
    job.run.steps = std::max<std::int64_t>(
        1, std::llround(std::ceil(epochs * static_cast<double>(rows.count) /
                                  static_cast<double>(job.run.global_batch))));
  const std::int64_t part = (job.run.steps + kLooks - 1) / kLooks;
  if (!given(options, "checkpoint.every")) job.checkpoint.every = part;
  if (!given(options, "run.eval_every")) job.run.eval_every = job.data.validation > 0 ? part : -1;
  if (!given(options, "optim.warmup_steps"))
    job.optim.warmup_steps = std::min(job.run.steps / kWarmUp, kMostWarmUp);
}

// The cores of this machine with the memory that is free now. Of a job whose steps the calibration cannot forecast line by
// line, such as one with adapters, products and memory have the calibrated rates.
planner::Cluster this_machine(const FinetuneOptions& options, const config::Job& job) {
  config::Job plain = job;
  plain.lora = {};
  if (options.calibrate) calibrate_for(plain, {.launcher = Launcher::kThreads});
  const FoundCalibration found = find_calibration();
  planner::Cluster cluster =
      found.calibration ? found.calibration->machine : planner::find_cluster("cpu-host");
  if (!found.calibration) {
    cluster.gpus_per_host = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    cluster.host_memory = 0;  // ranks hold all of it
    fmt::print("note      {}: the planner assumes the rates of cluster cpu-host\n", found.missing);
  } else if (!planner::unforeseen(job).empty()) {
    cluster.gpu.core.reset();
  }
  const std::optional<std::int64_t> free = free_memory();
  if (free) cluster.gpu.memory = *free / cluster.gpus_per_host;
  if (job.run.memory_limit.count > 0) cluster.gpu.memory = job.run.memory_limit.count;
  return cluster;
}

// The best layout of the ranks for the job. Keys that the user has given stay.
planner::Answer planned_for(const FinetuneOptions& options, config::Job job,
                            planner::Cluster cluster, int ranks) {
  planner::Question question{.job = std::move(job), .cluster = std::move(cluster), .gpus = ranks};
  question.as = planner::RuntimeAs::kToday;
  question.practice = planner::practice_of(question.as);
  for (std::string_view assignment : options.job.assignments) {
    if (assignment.starts_with("--")) assignment.remove_prefix(2);
    const std::string key(assignment.substr(0, assignment.find('=')));
    if (planner::chosen(key)) question.kept.push_back(key);
  }
  try {
    return planner::search(std::move(question), {.options = 1});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    throw Error(error.kind(),
                fmt::format("{}. Also possible: {}a shorter model.seq_len with data.chat='auto "
                            "long=cut'",
                            error.what(), options.full ? "--lora 16 in place of --full, " : ""));
  }
}

void say_choice(const FinetuneOptions& options, const LocatedDataset& data, const Rows& rows,
                const config::Job& job, const planner::Answer& answer) {
  const planner::Option& best = answer.options.front();
  const double full =
      100.0 * static_cast<double>(rows.places) /
      static_cast<double>(std::max<std::int64_t>(rows.count, 1) * job.model.seq_len);
  std::string text = fmt::format(
      "model     {}: {}, {:.4g}M parameters, {:.4g}M of them train ({})\n", options.model,
      config::name(job.model.family), best.parameters / 1e6, best.trained / 1e6,
      options.full ? "--full" : fmt::format("LoRA of rank {}", job.lora.rank));
  text += fmt::format("data      {}\n", data.what);
  text += fmt::format("rows      {} tokens, as the longest {} has {}; {} an epoch, {:.0f} % full\n",
                      job.model.seq_len, rows.of, rows.longest, counted(rows.count, "row"), full);
  text += fmt::format(
      "steps     {} of {}: {:.3g} epochs\n", job.run.steps, counted(job.run.global_batch, "row"),
      static_cast<double>(job.run.steps * job.run.global_batch) / static_cast<double>(rows.count));
  text += planner::best_text(answer);
  for (const planner::Reason& reason : answer.reasons)
    text += fmt::format("why       {}\n", reason.text);
  constexpr std::size_t kColumns = 120, kIndent = 10;
  fmt::print("{}", wrapped(text, kColumns, kIndent));
}

// The job with the chosen layout, as a file that `trireme train` reads.
std::string job_text(const FinetuneOptions& options, const config::Job& job,
                     const planner::Option& best) {
  config::Job chosen = planner::with_layout(job, best.layout);
  chosen.run.device = best.job.run.device;
  chosen.precision.numerics = best.job.precision.numerics;
  chosen.precision.group = best.job.precision.group;
  config::Job plain = read_job(
      {.file = job_in_memory("{}"), .assignments = {"model.weights=" + job.model.weights}});
  plain.model.weights.clear();
  return fmt::format("# {}\n# {}\n{}", options.command, planner::text(best.layout),
                     config::print_over(plain, chosen));
}

// A run that this very command began resumes; another command's is refused.
bool resumes(const FinetuneOptions& options) {
  const Path run = options.out;
  if (options.out.empty() || !fs::exists(run / kLockedJobName)) return false;
  const std::string first = fmt::format("# {}\n", options.command);
  if (!fs::exists(run / kJobName) || !read_file(run / kJobName).starts_with(first))
    fail(ErrorKind::kUsage,
         "{} is a run of another command; continue it with trireme train --out {}, or choose "
         "another --out",
         run.string(), run.string());
  return true;
}

int train_in(const FinetuneOptions& options, const Path& run) {
  TrainOptions train_options;
  train_options.out = run.string();
  train_options.calibrate = options.calibrate;
  train_options.command = options.command;
  return train(train_options);
}

}  // namespace

int finetune(const FinetuneOptions& options) {
  check(options);
  if (resumes(options)) return train_in(options, options.out);
  config::Job job = begun(options);
  const LocatedDataset data =
      locate_dataset(job.data, [](const std::string& text) { fmt::print("{}\n", text); });
  job = on_data(std::move(job), data);
  planner::Cluster cluster =
      options.cluster.empty() ? this_machine(options, job) : planner::find_cluster(options.cluster);
  const int ranks = options.job.ranks.value_or(cluster.gpus_per_host);
  const Rows rows = choose_rows(options, *data.text, job);
  choose_steps(options, rows, ranks, job);
  const planner::Answer answer = planned_for(options, job, std::move(cluster), ranks);
  say_choice(options, data, rows, job, answer);
  const std::string text = job_text(options, job, answer.options.front());
  if (options.dry_run) {
    fmt::print("\n{}", text);
    return 0;
  }
  const Path model = fs::path(options.model) / "";
  const Path run =
      options.out.empty() ? fresh_run(model.parent_path().filename().string()) : Path(options.out);
  RunDirectory(run.string(), "", "auto", print_note);  // refuses a directory that is no run's
  make_directories(run);
  replace_file(run / kJobName, text);
  fmt::print("job       {}\n", (run / kJobName).string());
  std::fflush(stdout);
  TrainOptions train_options;
  train_options.job.file = (run / kJobName).string();
  (planner::on_gpus(answer.question.cluster) ? train_options.job.nproc : train_options.job.ranks) =
      ranks;
  train_options.out = run.string();
  train_options.calibrate = false;  // measured already
  train_options.command = options.command;
  return train(train_options);
}

}  // namespace trireme::app
