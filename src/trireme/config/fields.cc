#include "trireme/config/fields.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

template <typename At>
using Member = std::remove_cvref_t<std::invoke_result_t<At, Job&>>;

template <typename At>
Field plain(Field::Kind kind, std::string key, At at, std::string doc, Range range = {}) {
  using Stored = std::conditional_t<std::is_same_v<Member<At>, int>, std::int64_t, Member<At>>;
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = kind;
  field.range = range;
  field.get = [at](const Job& job) -> Value { return static_cast<Stored>(at(job)); };
  field.set = [at](Job& job, const Value& value) {
    at(job) = static_cast<Member<At>>(std::get<Stored>(value));
  };
  return field;
}

template <typename At>
Field boolean(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kBool, std::move(key), at, std::move(doc));
}

template <typename At>
Field integer(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kInteger, std::move(key), at, std::move(doc), range);
}

template <typename At>
Field number(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kNumber, std::move(key), at, std::move(doc), range);
}

template <typename At>
Field two_numbers(std::string key, At at, std::string doc, Range range) {
  return plain(Field::Kind::kTwoNumbers, std::move(key), at, std::move(doc), range);
}

template <typename At>
Field bytes(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kBytes, std::move(key), at, std::move(doc));
}

template <typename At>
Field text(std::string key, At at, std::string doc) {
  return plain(Field::Kind::kText, std::move(key), at, std::move(doc));
}

template <typename At>
Field choice(std::string key, At at, std::string doc,
             std::vector<std::pair<std::string_view, Member<At>>> options) {
  Field field;
  field.key = std::move(key);
  field.doc = std::move(doc);
  field.kind = Field::Kind::kChoice;
  for (const auto& option : options) field.choices.emplace_back(option.first);
  field.get = [at, options](const Job& job) -> Value {
    const auto option = std::ranges::find(options, at(job), [](const auto& o) { return o.second; });
    TRIREME_CHECK(option != options.end(), "a choice without a name");
    return std::string(option->first);
  };
  field.set = [at, options](Job& job, const Value& value) {
    const auto option = std::ranges::find(options, std::get<std::string>(value),
                                          [](const auto& o) { return o.first; });
    TRIREME_CHECK(option != options.end(), "{} is no choice", std::get<std::string>(value));
    at(job) = option->second;
  };
  return field;
}

Field fixed(Field field) {
  field.fixed = true;
  return field;
}

// Bounds that keep products of sizes inside 64 bits; nobody trains beyond them.
constexpr double kMaxWidth = 1 << 20;
constexpr double kMaxIds = 1 << 28;
constexpr double kMaxSteps = 1e9;
constexpr double kMaxBatch = 1 << 30;
constexpr double kMaxSeed = 9007199254740992;  // 2^53: every whole number up to it is a double

Range from(double min, double max) { return Range{.min = min, .max = max}; }
Range above(double min, double max) { return Range{.min = min, .max = max, .above_min = true}; }
Range half_open(double min, double max) { return Range{.min = min, .max = max, .below_max = true}; }
Range or_else(std::int64_t also, Range range) {
  range.also = also;
  return range;
}

// Key and member of Job, spelled once.
#define KEY(member) \
#member, [](auto& job) -> auto& { return job.member; }

void add_model(std::vector<Field>& list) {
  list.push_back(fixed(choice(KEY(model.family),
                              "Architecture: GPT-2 (learned positions, LayerNorm, GELU) or Llama "
                              "(RoPE, RMSNorm, SwiGLU, grouped-query attention).",
                              {{"gpt", Family::kGpt}, {"llama", Family::kLlama}})));
  list.push_back(fixed(integer(KEY(model.layers), "Transformer blocks.", from(1, 1 << 16))));
  list.push_back(
      fixed(integer(KEY(model.hidden), "Width of the residual stream.", from(1, kMaxWidth))));
  list.push_back(
      fixed(integer(KEY(model.heads), "Attention heads; must divide hidden.", from(1, 1 << 16))));
  list.push_back(fixed(integer(
      KEY(model.kv_heads),
      "Key-value heads, each shared by heads / kv_heads query heads (llama); 0: as many as heads.",
      from(0, 1 << 16))));
  list.push_back(fixed(integer(KEY(model.ffn),
                               "Width of the feed-forward layer; 0: 4 x hidden (gpt), or 8/3 x "
                               "hidden rounded up to a multiple of 256 (llama).",
                               from(0, 1 << 24))));
  list.push_back(fixed(
      integer(KEY(model.vocab),
              "Rows of the token embedding, at least the dataset's vocabulary; 0: exactly that.",
              from(0, kMaxIds))));
  list.push_back(fixed(integer(KEY(model.seq_len), "Tokens per sample.", from(1, kMaxIds))));
  list.push_back(fixed(boolean(KEY(model.tied), "The output layer is the token embedding.")));
  list.push_back(fixed(
      number(KEY(model.dropout), "Probability of dropping an element (gpt).", half_open(0, 1))));
  list.push_back(
      fixed(number(KEY(model.norm_eps), "Epsilon of LayerNorm and RMSNorm.", above(0, 1))));
  list.push_back(fixed(
      number(KEY(model.rope_theta), "Base of the rotary frequencies (llama).", above(1, 1e9))));
  list.push_back(
      fixed(number(KEY(model.init_std), "Standard deviation of initial weights.", from(0, 10))));
  list.push_back(fixed(
      text(KEY(model.frozen),
           "Units that do not train, as patterns between commas: embed, block.0 .. and head; * "
           "stands for anything, [0-3] for these numbers. Empty: all train.")));
  // Not fixed: a run that resumes has its weights from its own checkpoint.
  list.push_back(
      text(KEY(model.weights),
           "A checkpoint (a step-N directory) whose parameters this model begins with; empty: with "
           "random ones. A run that resumes does not read it, but for what its checkpoints leave "
           "out (checkpoint.trainable_only)."));
}

void add_lora(std::vector<Field>& list) {
  list.push_back(
      fixed(integer(KEY(lora.rank),
                    "Rank of the low-rank adapters that train in the place of the model's weights "
                    "(docs/lora.md); 0: none.",
                    from(0, kMaxWidth))));
  list.push_back(fixed(
      number(KEY(lora.alpha), "What an adapter adds is scaled by alpha / rank.", above(0, 1e6))));
  list.push_back(fixed(number(KEY(lora.dropout),
                              "Probability of dropping an element of what an adapter reads.",
                              half_open(0, 1))));
  list.push_back(fixed(choice(KEY(lora.targets), "Linear layers of a block that have an adapter.",
                              {{"all", LoraTargets::kAll},
                               {"attention", LoraTargets::kAttention},
                               {"mlp", LoraTargets::kMlp}})));
  list.push_back(fixed(text(KEY(lora.also),
                            "Units of the model that train beside the adapters, as patterns like "
                            "model.frozen's.")));
}

void add_data(std::vector<Field>& list) {
  // Not fixed: a dataset may move; a checkpoint knows its content by digest.
  list.push_back(text(KEY(data.path),
                      "Token dataset made by `trireme data prepare`, or a text file; empty: "
                      "the quick start's text, the C++ headers of this machine."));
  list.push_back(
      fixed(text(KEY(data.tokenizer),
                 "How text becomes tokens: bytes, characters, bpe:N (byte-level BPE of N "
                 "tokens, 257 to 65536, learnt from the training split), or the path of "
                 "a Hugging Face tokenizer.json.")));
  list.push_back(
      fixed(integer(KEY(data.seed), "Seed of the order of samples.", from(0, kMaxSeed))));
  list.push_back(fixed(
      number(KEY(data.validation), "Fraction of the text held out for validation.", from(0, 0.5))));
  list.push_back(
      fixed(boolean(KEY(data.documents),
                    "Tokens attend within their own document, whose positions begin at 0; "
                    "else a sample is one text, whatever it is cut from.")));
}

void add_parallel(std::vector<Field>& list) {
  list.push_back(integer(KEY(parallel.pp), "Pipeline stages.", from(1, 1 << 10)));
  list.push_back(choice(KEY(parallel.schedule),
                        "What each pipeline rank computes when (docs/pipeline.md compares them).",
                        {{"gpipe", "gpipe"},
                         {"1f1b", "1f1b"},
                         {"interleaved", "interleaved"},
                         {"zb_h1", "zb_h1"},
                         {"zb_h2", "zb_h2"},
                         {"zb_auto", "zb_auto"},
                         {"zb_v", "zb_v"},
                         {"v_half", "v_half"},
                         {"v_min", "v_min"},
                         {"dualpipe_v", "dualpipe_v"}}));
  list.push_back(
      text(KEY(parallel.schedule_file),
           "A schedule as a CSV of actions, in the form of PyTorch's pipelining, instead "
           "of a named one."));
  list.push_back(integer(KEY(parallel.virtual_stages),
                         "Chunks of the model on each pipeline rank; 0: as many as the schedule "
                         "has (interleaved 2).",
                         from(0, 1 << 10)));
  list.push_back(
      text(KEY(parallel.stages),
           "Where the model is cut: auto (by cost and memory), or the nodes of each "
           "stage in its order, such as 4,3,3,4 (embedding and head count as one each)."));
  list.push_back(text(KEY(parallel.costs),
                      "A node_costs.json of an earlier run (run.trace): cuts, searched schedules "
                      "and forecasts then go by these seconds instead of by counted operations."));
  list.push_back(
      number(KEY(parallel.activation_limit),
             "Micro-batches whose activations a rank may keep, in times parallel.pp, which is "
             "1f1b's most (zb_auto).",
             above(0, 1e6)));
  list.push_back(number(KEY(parallel.transfer),
                        "What sending an activation takes, in times a stage's forward: schedules "
                        "that are searched take it into account.",
                        from(0, 1e6)));
  list.push_back(integer(KEY(parallel.dp_replicate),
                         "Data-parallel ranks that hold the same shards.", from(1, 1 << 16)));
  list.push_back(
      integer(KEY(parallel.dp_shard),
              "Data-parallel ranks over which zero shards; -1: what is left of the world.",
              or_else(-1, from(1, 1 << 16))));
  list.push_back(integer(KEY(parallel.cp), "Context-parallel ranks: parts of one sequence.",
                         from(1, 1 << 10)));
  list.push_back(
      integer(KEY(parallel.tp), "Tensor-parallel ranks: parts of one layer.", from(1, 1 << 10)));
  list.push_back(boolean(KEY(parallel.sequence_parallel),
                         "tp ranks also share out the rows of norms, residuals and dropout."));
  list.push_back(choice(KEY(parallel.context),
                        "How cp ranks attend: ring (keys and values travel), all_gather (keys and "
                        "values are gathered), ulysses (heads are exchanged for tokens), "
                        "hierarchical (heads within context_inner ranks, a ring of those groups).",
                        {{"ring", ContextMethod::kRing},
                         {"all_gather", ContextMethod::kAllGather},
                         {"ulysses", ContextMethod::kUlysses},
                         {"hierarchical", ContextMethod::kHierarchical}}));
  list.push_back(integer(KEY(parallel.context_inner),
                         "Neighbouring cp ranks that exchange heads (context hierarchical).",
                         from(2, 1 << 10)));
  list.push_back(
      integer(KEY(parallel.zero),
              "What dp_shard (and cp) ranks share out: 0 nothing, 1 optimizer states, 2 also "
              "gradients, 3 also parameters; 3 with dp_replicate > 1 is HSDP.",
              from(0, 3)));
  list.push_back(integer(KEY(parallel.prefetch), "Units gathered ahead of their use (zero 3).",
                         from(0, 1 << 10)));
  list.push_back(number(KEY(parallel.comm_timeout_s),
                        "Seconds after which a rank that waits for a silent peer gives up.",
                        above(0, 86400)));
}

void add_precision(std::vector<Field>& list) {
  const auto type = [](std::string key, auto at, std::string doc) {
    return choice(std::move(key), at, std::move(doc),
                  {{"auto", std::nullopt},
                   {"fp64", DType::kF64},
                   {"fp32", DType::kF32},
                   {"bf16", DType::kBF16}});
  };
  list.push_back(choice(KEY(precision.compute), "Type of parameters and activations inside blocks.",
                        {{"fp64", DType::kF64},
                         {"fp32", DType::kF32},
                         {"bf16", DType::kBF16},
                         {"fp16", DType::kF16}}));
  list.push_back(
      fixed(type(KEY(precision.master),
                 "Type of the weights and states that the optimizer steps; auto: fp64 for compute "
                 "fp64, else fp32. With bf16, for compute bf16, one copy of the weights serves "
                 "blocks and optimizer.")));
  list.push_back(
      type(KEY(precision.grads),
           "Type in which gradients accumulate; auto: fp64 for compute fp64, else fp32. bf16, for "
           "compute bf16, needs numerics fast."));
  list.push_back(type(KEY(precision.reduce),
                      "Type in which gradients travel between ranks; auto: as they accumulate. "
                      "bf16 needs numerics fast."));
  list.push_back(choice(
      KEY(precision.rounding),
      "How the optimizer rounds to master bf16; auto: stochastic, which loses no small updates on "
      "average.",
      {{"auto", std::nullopt},
       {"stochastic", Rounding::kStochastic},
       {"nearest", Rounding::kNearest}}));
  list.push_back(text(
      KEY(precision.nodes),
      "Compute types of nodes, by patterns such as head=fp32,block.[0-1]=fp32; the last one that "
      "matches counts."));
  list.push_back(
      text(KEY(precision.loss_scale),
           "What multiplies gradients on their way: off, a number, or dynamic (DeepSpeed's rule; "
           "a step that overflows is skipped); auto: dynamic for compute fp16, else off."));
  list.push_back(number(KEY(precision.loss_scale_start), "Dynamic loss scale of the first step.",
                        above(0, 1e30)));
  list.push_back(integer(KEY(precision.loss_scale_window),
                         "Steps without overflow before the loss scale is raised.",
                         from(1, kMaxSteps)));
  list.push_back(number(KEY(precision.loss_scale_factor),
                        "What a dynamic loss scale is multiplied or divided by; powers of two "
                        "change no bits.",
                        above(1, 1e6)));
  list.push_back(integer(KEY(precision.loss_scale_hysteresis),
                         "Overflows before the loss scale is lowered.", from(1, 1 << 20)));
  list.push_back(number(KEY(precision.loss_scale_floor),
                        "Lowest dynamic loss scale; an overflow there ends the run.",
                        above(0, 1e30)));
  list.push_back(choice(KEY(precision.numerics),
                        "canonical: sums walk one fixed tree, so that power-of-two data-parallel "
                        "layouts give equal bits; fast: sums in whatever order is cheapest.",
                        {{"canonical", Numerics::kCanonical}, {"fast", Numerics::kFast}}));
}

void add_recompute(std::vector<Field>& list) {
  list.push_back(choice(
      KEY(recompute.policy),
      "What forwards do not keep but backwards compute again, with the same bits. full: blocks "
      "keep "
      "only their input; selective: they leave out some parts; uniform: segments of a few blocks "
      "keep only their input; block: as full, but only the first blocks; segments: as uniform, of "
      "about the square root of a stage's blocks; auto: the cheapest choice of parts and whole "
      "blocks that fits into recompute.memory.",
      {{"none", RecomputePolicy::kNone},
       {"full", RecomputePolicy::kFull},
       {"selective", RecomputePolicy::kSelective},
       {"uniform", RecomputePolicy::kUniform},
       {"block", RecomputePolicy::kBlock},
       {"segments", RecomputePolicy::kSegments},
       {"auto", RecomputePolicy::kAuto}}));
  list.push_back(text(KEY(recompute.nodes),
                      "Nodes that the policy may choose, by patterns such as block.[0-11],head; "
                      "empty: all that can be computed again."));
  list.push_back(text(KEY(recompute.parts),
                      "selective: parts that are left out: norms (normed inputs), attention (its "
                      "result), mlp (what the activation reads), logits."));
  list.push_back(integer(KEY(recompute.every), "uniform: blocks of a segment.", from(0, kMaxIds)));
  list.push_back(
      integer(KEY(recompute.first), "block: how many blocks run again.", from(0, kMaxIds)));
  list.push_back(bytes(
      KEY(recompute.memory),
      "auto: what the plan of one rank may take, parameters, optimizer and all; on a CPU also what "
      "waits in host memory. The library itself is not in it, as it is in "
      "run.memory_limit."));
  list.push_back(
      boolean(KEY(recompute.logits),
              "Keep no logits: backward computes them again, 8192 tokens of the vocabulary "
              "at a time, for one product more."));
}

void add_offload(std::vector<Field>& list) {
  const auto tier = [](std::string key, auto at, std::string doc) {
    return choice(
        std::move(key), at, doc,
        {{"none", OffloadTier::kNone}, {"host", OffloadTier::kHost}, {"nvme", OffloadTier::kNvme}});
  };
  list.push_back(tier(KEY(offload.optimizer),
                      "Where optimizer states, and master weights that are a copy, wait for their "
                      "step: none (in memory), host memory, or nvme (a file in offload.path)."));
  list.push_back(tier(KEY(offload.params),
                      "Where parameters wait for forwards and backwards of their blocks."));
  list.push_back(tier(KEY(offload.grads),
                      "Where sums of gradients wait for more micro-batches and for their step."));
  list.push_back(
      choice(KEY(offload.activations),
             "Where the inputs of blocks that run again (recompute.policy) wait for backward; tp: "
             "each tensor-parallel rank keeps its part of them (sequence_parallel false).",
             {{"none", OffloadTier::kNone},
              {"host", OffloadTier::kHost},
              {"nvme", OffloadTier::kNvme},
              {"tp", OffloadTier::kTp}}));
  list.push_back(number(KEY(offload.ratio),
                        "How much of the optimizer leaves memory, in whole units.", above(0, 1)));
  list.push_back(integer(KEY(offload.prefetch),
                         "Units or activations that come back ahead of their use.",
                         from(0, 1 << 10)));
  list.push_back(
      text(KEY(offload.path),
           "Existing directory for the scratch file (nvme), which has no name there and is gone "
           "with the process; empty: scratch in the run directory."));
  list.push_back(choice(KEY(offload.engine),
                        "How the scratch file is read and written (nvme); auto: io_uring where it "
                        "works, else threads.",
                        {{"auto", OffloadEngine::kAuto},
                         {"io_uring", OffloadEngine::kIoUring},
                         {"threads", OffloadEngine::kThreads}}));
}

void add_optim(std::vector<Field>& list) {
  list.push_back(
      fixed(choice(KEY(optim.name), "Optimizer; adamw decays weights of two or more dims only.",
                   {{"adamw", Optimizer::kAdamW}})));
  list.push_back(number(KEY(optim.lr), "Peak learning rate.", above(0, 100)));
  list.push_back(number(KEY(optim.min_lr),
                        "Learning rate at the end of decay (linear, cosine, wsd).", from(0, 100)));
  list.push_back(integer(KEY(optim.warmup_steps), "Steps of linear warm-up from 0 to lr.",
                         from(0, kMaxSteps)));
  list.push_back(integer(KEY(optim.decay_steps),
                         "Step at which min_lr is reached, warm-up included; 0: run.steps.",
                         from(0, kMaxSteps)));
  list.push_back(
      choice(KEY(optim.schedule),
             "Learning rate after warm-up; wsd stays at lr and decays linearly at the end.",
             {{"constant", LrSchedule::kConstant},
              {"linear", LrSchedule::kLinear},
              {"cosine", LrSchedule::kCosine},
              {"wsd", LrSchedule::kWsd}}));
  list.push_back(number(KEY(optim.wsd_decay_fraction),
                        "Last part of decay_steps in which wsd decays.", from(0, 1)));
  list.push_back(number(KEY(optim.weight_decay),
                        "Decoupled weight decay, scaled by the learning rate.", from(0, 100)));
  list.push_back(two_numbers(
      KEY(optim.betas), "AdamW's decay rates of the first and second moment.", half_open(0, 1)));
  list.push_back(number(KEY(optim.eps), "AdamW's epsilon.", above(0, 1)));
  list.push_back(
      number(KEY(optim.clip), "Largest global gradient norm; 0: no clipping.", from(0, 1e9)));
  list.push_back(fixed(
      choice(KEY(optim.states),
             "How moments are kept: auto, in precision.master; int8, as 8-bit codes with a scale "
             "for every 256 of them, which needs parallel.tp=1.",
             {{"auto", OptimizerStates::kMaster}, {"int8", OptimizerStates::kInt8}})));
}

void add_run(std::vector<Field>& list) {
  list.push_back(choice(KEY(run.device), "Where ranks compute; cuda: one process a GPU.",
                        {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}}));
  list.push_back(integer(KEY(run.steps), "Optimizer steps of the whole run.", from(1, kMaxSteps)));
  list.push_back(fixed(
      integer(KEY(run.global_batch), "Samples per step over all ranks.", from(1, kMaxBatch))));
  list.push_back(fixed(integer(
      KEY(run.micro_batch), "Samples per forward and backward of one rank.", from(1, kMaxBatch))));
  list.push_back(boolean(
      KEY(run.find_micro_batch),
      "Before training, find the largest micro_batch, of those that divide a rank's samples of "
      "global_batch, with which the job fits run.memory_limit or, without one, the machine: by the "
      "plan's forecast, then by a trial of two steps. Micro-batches are the leaves of canonical "
      "sums, so another one is another run to the bit."));
  list.push_back(
      bytes(KEY(run.memory_limit),
            "The most memory that a rank may need, its share of the process counted in; "
            "a job whose forecast is above it does not start (exit code 6); 0: no limit."));
  list.push_back(
      fixed(integer(KEY(run.seed), "Seed of initial weights and dropout.", from(0, kMaxSeed))));
  list.push_back(integer(KEY(run.log_every), "Steps between progress lines.", from(1, kMaxSteps)));
  list.push_back(
      integer(KEY(run.eval_every), "Steps between validations; 0: never.", from(0, kMaxSteps)));
  list.push_back(integer(KEY(run.eval_batches),
                         "Global batches per validation; 0: the whole validation split.",
                         from(0, kMaxSteps)));
  list.push_back(integer(
      KEY(run.skip_non_finite),
      "How many steps in a row may have a loss or gradient norm that is not finite: they change no "
      "parameter, the rank and "
      "tensor where it began are named, and the last one ends the run with exit code 5; 0: the "
      "first does. Overflows under a dynamic loss scale do not count.",
      from(0, kMaxSteps)));
  list.push_back(integer(
      KEY(run.compare_replicas),
      "Steps between comparisons of what several ranks hold alike, bit for bit; every checkpoint "
      "is "
      "compared before it is written. Where replicas differ the run ends with exit code 4, and the "
      "rank that is alone is named. 0: never.",
      from(0, kMaxSteps)));
  list.push_back(integer(KEY(run.trace),
                         "The step of which every rank's lines are timed: trace.json, timeline.svg "
                         "and node_costs.json in the run directory; 0: none.",
                         from(0, kMaxSteps)));
  list.push_back(integer(KEY(checkpoint.every),
                         "Steps between checkpoints; 0: only at the end of the run.",
                         from(0, kMaxSteps)));
  list.push_back(boolean(KEY(checkpoint.async),
                         "Checkpoints of checkpoint.every are copied in host memory and written "
                         "while training goes on; else, and where states or parameters are "
                         "offloaded to nvme, training waits for the disk. The last one of a run is "
                         "always waited for."));
  list.push_back(
      integer(KEY(checkpoint.keep_last),
              "Checkpoints kept, newest first; the two newest whole ones always stay; 0: all.",
              from(0, kMaxSteps)));
  list.push_back(integer(KEY(checkpoint.keep_every),
                         "Beside keep_last, those of every so many steps are kept; 0: none.",
                         from(0, kMaxSteps)));
  list.push_back(integer(KEY(checkpoint.keep_best),
                         "Beside keep_last, so many with the lowest validation loss are kept.",
                         from(0, kMaxSteps)));
  list.push_back(boolean(KEY(checkpoint.trainable_only),
                         "Checkpoints leave out what does not train; what reads them takes it from "
                         "model.weights."));
}

#undef KEY

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> list;
    add_model(list);
    add_data(list);
    add_parallel(list);
    add_precision(list);
    add_recompute(list);
    add_offload(list);
    add_optim(list);
    add_lora(list);
    add_run(list);
    return list;
  }();
  return kFields;
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> names;
  for (const Field& field : fields())
    if (names.empty() || names.back() != field.section()) names.push_back(field.section());
  return names;
}

const Field* find_field(std::string_view key) {
  const auto field = std::ranges::find(fields(), key, &Field::key);
  return field == fields().end() ? nullptr : &*field;
}

}  // namespace trireme::config
