// Broken jobs: each ends in one clear line that names the place, the value seen and the way out.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/config/error_of.h"
#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::broken_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

struct Broken {
  std::string text;
  std::string place;  // LINE:COLUMN; empty where yaml-cpp's versions differ
  std::string fragment;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.text.substr(0, 60); }

class BrokenJob : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenJob, IsRefusedInOneLine) {
  const auto& [text, place, fragment] = GetParam();
  const std::string message = usage_error_of([&] { parse_job(text, "job.yaml"); });
  EXPECT_THAT(message, StartsWith("job.yaml:" + (place.empty() ? place : place + ": "))) << text;
  EXPECT_THAT(message, MatchesRegex("job.yaml:[0-9]+:[0-9]+: .*")) << text;
  EXPECT_THAT(message, HasSubstr(fragment)) << text;
}

const std::vector<Broken> kSyntax = {
    {"", "1:1", "empty; a job is a map of sections"},
    {"# nothing but a comment\n", "1:1", "empty"},
    {"---\n", "1:1", "empty"},
    {"gpt", "1:1", "\"gpt\" where a map is needed"},
    {"42", "1:1", "\"42\" where a map is needed"},
    {"[model, data]", "1:1", "a list where a map is needed"},
    {"- model\n- data\n", "1:1", "a list where a map is needed"},
    {"model:\n\tlayers: 2\n", "2:1", "a tab indents this line; use spaces"},
    {"model:\n  layers: 2\n \theads: 2\n", "3:2", "a tab indents this line"},
    {"model: {layers: 2", "", "not valid YAML"},
    {"model: {layers: 2}}", "", "not valid YAML"},
    {"{\"model\": {\"layers\" 2}}", "", "not valid YAML"},
    {"model:\n  layers: 2\n heads: 2\n", "", "not valid YAML"},
    {"model:\n  layers: 2\n  - heads\n", "", "not valid YAML"},
    {"data: {path: \"unfinished}\n", "", "not valid YAML"},
    {"data: {path: \"\\q\"}\n", "", "not valid YAML"},
    {"%YAML 9.9\n---\nmodel: {layers: 2}\n", "", "not valid YAML"},
    {"model: {layers: 2}\nmodel: {heads: 2}\n", "2:1",
     "key \"model\" appears twice, first on line 1; keep one"},
    {"model:\n  layers: 2\n  heads: 2\n  layers: 3\n", "4:3",
     "key \"layers\" appears twice, first on line 2"},
    {"{\"run\": {\"steps\": 1, \"steps\": 1}}", "1:22", "key \"steps\" appears twice"},
    {"model: {layers: 2}\n---\nmodel: {layers: 3}\n", "", "a second document starts"},
    {"model:\n  layers: &n 2\n", "2:11", "anchors (&name) are not supported; write the value out"},
    {"model: &m {layers: 2}\n", "1:8", "anchors (&name) are not supported"},
    {"model: *m\n", "", "not valid YAML: the referenced anchor is not defined"},
    {"model:\n  <<: {layers: 2}\n", "2:3", "merge keys (<<) are not supported"},
    {"model: {layers: !!int 2}\n", "1:17", "tags (!!type) are not supported"},
    {"!job\nmodel: {layers: 2}\n", "1:1", "tags (!!type) are not supported"},
    {"a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}", "", "nested deeper than 8 levels"},
    {"optim: {betas: [[[[[[[[0.9]]]]]]]]}", "", "nested deeper than 8 levels"},
    {"model: {? [layers] : 2}", "1:11", "a list or map where a key is needed"},
    {"~: 2\n", "1:1", "a key must be a plain word"},
    {std::string("model: {layers: \0}", 18), "1:17", "byte 0x00 is not UTF-8 text"},
    {"data:\n  path: a\x1b[2J\n", "2:10", "byte 0x1b is not UTF-8 text"},
    {"data: {path: \xff\xfe}", "1:14", "byte 0xff is not UTF-8 text"},
    {"data: {path: \xc0\xaf}", "1:14", "byte 0xc0 is not UTF-8 text"},
    {"data: {path: \xed\xa0\x80}", "1:14", "byte 0xed is not UTF-8 text"},
    {std::string(300'000, '#'), "1:1", "300000 bytes; a job has at most 262144"},
};

const std::vector<Broken> kNames = {
    {"modle: {layers: 2}", "1:1", "unknown section modle; did you mean model?"},
    {"optimizer: {lr: 2}", "1:1", "unknown section optimizer; did you mean optim"},
    {"scheduler: {lr: 2}", "1:1",
     "unknown section scheduler; did you mean parallel.schedule or optim.schedule?"},
    {"kernels: {fused: 2}", "1:1", "unknown section kernels; sections are model, vision, "},
    {"lr: 1e-3", "1:1", "unknown section lr; did you mean hnet.lr, probe.lr or optim.lr?"},
    {"seed: 1", "1:1", "unknown section seed; did you mean data.seed or run.seed?"},
    {"model.layers: 2", "1:1", "unknown section model.layers; did you mean model.layers?"},
    {"\"\": 2", "1:1", "unknown section \"\"; sections are"},
    {"model:\n  layer: 2\n", "2:3",
     "unknown key model.layer; did you mean model.layers or vlm.layer?"},
    {"model: {haeds: 2}", "1:9", "unknown key model.haeds; did you mean model.heads?"},
    {"model: {lr: 2}", "1:9", "unknown key model.lr; did you mean hnet.lr, probe.lr or optim.lr?"},
    {"data: {tokeniser: bytes}", "1:8", "did you mean data.tokenizer?"},
    {"run: {tp: 2}", "1:7", "unknown key run.tp; did you mean parallel.tp?"},
    {"optim: {warmup: 10}", "1:9", "did you mean optim.warmup_steps or optim.warmup_lr?"},
    {"vlm: {momentum: 0.9}", "1:7", "unknown key vlm.momentum; did you mean"},
    {"parallel: {experts: 2}", "1:12", "unknown key parallel.experts; keys of"},
    {"model:\n  Layers: 2\n", "2:3", "did you mean model.layers?"},
    {"model:\n  \"a\\nb\": 2\n", "2:3", "unknown key \"model.a\\x0ab\""},
    {"model: {" + std::string(900, 'x') + ": 2}", "1:9", "unknown key \"model.xxx"},
};

const std::vector<Broken> kValues = {
    {"model: 3", "1:8", "model: has \"3\" where its keys are needed; keys of model are family"},
    {"model: [layers, 2]", "1:8", "model: has a list where its keys are needed;"},
    {"model:\n  layers:\n  heads: 2\n", "2:3", "model.layers: has no value; needs 1 to "},
    {"model: {layers: null}", "1:9", "model.layers: has no value"},
    {"model: {layers: [2]}", "1:17", "model.layers: has a list"},
    {"model: {layers: {n: 2}}", "1:17", "model.layers: has a map"},
    {"model: {layers: many}", "1:17", "model.layers: \"many\" is not a number; needs 1"},
    {"model: {layers: \"2\"}", "1:17", "\"2\" is quoted text; remove the quotes"},
    {"model: {layers: 2.5}", "1:17", "2.5 is not whole"},
    {"model: {layers: 0}", "1:17", "0 is out of range; needs 1 to 65536"},
    {"model: {layers: -3}", "1:17", "-3 is out of range"},
    {"model: {layers: 5e8}", "1:17", "5e8 is out of range"},
    {"model: {layers: 1_000}", "1:17", "\"1_000\" is not a number"},
    {"model: {layers: 0x10}", "1:17", "\"0x10\" is not a number"},
    {"model: {layers: 2 4}", "1:17", "\"2 4\" is not a number"},
    {"model: {layers: true}", "1:17", "\"true\" is not a number"},
    {"run: {seed: 9007199254740994}", "1:13", "out of range"},
    {"run: {seed: 18446744073709551616}", "1:13", "out of range"},
    {"run: {steps: 1e400}", "1:14", "beyond what a number can hold"},
    {"optim: {lr: nan}", "1:13", "\"nan\" is not finite"},
    {"optim: {lr: .nan}", "1:13", ".nan is not finite"},
    {"optim: {lr: -.inf}", "1:13", "-.inf is not finite"},
    {"optim: {lr: inf}", "1:13", "is not finite"},
    {"optim: {lr: 0}", "1:13", "0 is out of range; needs a number above 0"},
    {"optim: {lr: -1e-4}", "1:13", "-1e-4 is out of range"},
    {"optim: {lr: 1,5}", "1:15", "unknown key optim.5"},
    {"optim: {weight_decay: [0.04, -0.5]}", "1:23", "-0.5 is out of range; needs a number from 0"},
    {"optim: {weight_decay: [1, 2, 3]}", "1:23",
     "has 3 values; needs a number from 0 to 100, or a list of two: at the first step and at"},
    {"optim: {groups: head}", "1:17", "optim.groups: has a single value; needs a list of maps of"},
    {"optim: {groups: [head]}", "1:17", "optim.groups: entry 1 has a single value"},
    {"optim: {groups: [{lr_mult: 2}]}", "1:17", "optim.groups: entry 1 has no match; needs"},
    {"optim: {groups: [{match: a, lr: 2}]}", "1:17", "entry 1 has an unknown key \"lr\"; needs a"},
    {"optim: {groups: [{match: a}, {match: b, lr_mult: -1}]}", "1:17",
     "optim.groups[2].lr_mult: -1 is out of range; needs a number from 0 to 1000"},
    {"jepa: {momentum: [0.9, 1.5]}", "1:18", "1.5 is out of range; needs a number from 0 to 1"},
    {"optim: {warmup_lr: -1}", "1:20", "-1 is out of range; needs a number from 0 to 100"},
    {"optim: {lr: fast}", "1:13", "\"fast\" is not a number; needs a number above 0"},
    {"optim: {betas: 0.9}", "1:16",
     "has a single value; needs a list of two numbers from 0 to below 1"},
    {"optim: {betas: [0.9]}", "1:16", "has 1 values"},
    {"optim: {betas: [0.9, 0.95, 0.99]}", "1:16", "has 3 values"},
    {"optim: {betas: [0.9, 1]}", "1:16", "1 is out of range"},
    {"optim: {betas: [0.9, high]}", "1:16", "\"high\" is not a number"},
    {"optim: {schedule: cosin}", "1:19",
     "\"cosin\" is unknown; needs one of constant, linear, cosine, wsd"},
    {"optim: {name: sgd}", "1:15", "\"sgd\" is unknown; needs one of adamw, lion"},
    {"model: {dropout: 1}", "1:18", "1 is out of range; needs a number from 0 to below 1"},
    {"model: {family: bert}", "1:17", "\"bert\" is unknown; needs one of gpt, llama"},
    {"model: {tied: yes}", "1:15", "\"yes\" is neither; needs true or false"},
    {"model: {tied: on}", "1:15", "needs true or false"},
    {"model: {tied: True}", "1:15", "needs true or false"},
    {"model: {tied: 1}", "1:15", "needs true or false"},
    {"model: {tied: \"true\"}", "1:15", "needs true or false"},
    {"data: {path: [a, b]}", "1:14", "data.path: has a list; needs text"},
    {"data: {path: \"a\\nb\"}", "1:14", "has control characters"},
    {"data:\n  path: |\n    a\n    b\n", "2:9", "has control characters"},
    {"parallel: {zero: 4}", "1:18", "4 is out of range; needs 0 to 3"},
    {"parallel: {dp_shard: 0}", "1:22", "0 is out of range; needs 1 to 65536, or -1"},
    {"parallel: {tp: 4294967297}", "1:16", "out of range"},
    {"precision: {compute: fp8}", "1:22",
     "\"fp8\" is unknown; needs one of fp64, fp32, bf16, fp16"},
    {"precision: {master: fp16}", "1:21", "needs one of auto, fp64, fp32, bf16"},
    {"checkpoint: {keep_last: -1}", "1:25", "-1 is out of range"},
};

INSTANTIATE_TEST_SUITE_P(Syntax, BrokenJob, ::testing::ValuesIn(kSyntax));
INSTANTIATE_TEST_SUITE_P(Names, BrokenJob, ::testing::ValuesIn(kNames));
INSTANTIATE_TEST_SUITE_P(Values, BrokenJob, ::testing::ValuesIn(kValues));

TEST(BrokenSet, NamesTheKeyAndTheWayOut) {
  const std::vector<std::pair<std::string, std::string>> kTable = {
      {"", "needs section.key=value"},
      {"model.layers", "--set \"model.layers\": needs section.key=value"},
      {"=4", "needs section.key=value"},
      {"model.layer=4", "--set model.layer: unknown key; did you mean model.layers or vlm.layer?"},
      {"layers=4", "--set layers: unknown key; did you mean model.layers"},
      {"model=4", "--set model: unknown key; did you mean model?"},
      {"model.layers=", "--set model.layers: \"\" is not a number"},
      {"model.layers=two", "--set model.layers: \"two\" is not a number; needs 1 to "},
      {"model.layers= 4", "\" 4\" is not a number"},
      {"model.tied=no", "--set model.tied: \"no\" is neither; needs true or false"},
      {"optim.betas=0.9,0.95",
       "--set optim.betas: has a single value; needs a list of two numbers"},
      {"optim.betas=[0.9", "--set optim.betas:1:"},
      {"optim.betas=*x", "not valid YAML"},
      {"data.path=a\nb", "has control characters"},
      {"a\nb=c", "--set \"a\\x0ab\": unknown key"},
  };
  for (const auto& [assignment, fragment] : kTable) {
    Job job;
    EXPECT_THAT(usage_error_of([&] { apply_set(job, assignment); }), HasSubstr(fragment))
        << assignment;
    EXPECT_EQ(job, Job{}) << assignment;
  }
}

struct Conflict {
  std::vector<std::string> sets;
  int world;
  std::string fragment;
};

TEST(Conflicts, ShowTheArithmeticAndAWayOut) {
  const std::vector<Conflict> kTable = {
      {{}, 0, "a world of 0 ranks; needs 1 or more"},
      {{"parallel.dp_shard=3"},
       4,
       "pp=1 x dp_replicate=1 x dp_shard=3 x cp=1 x tp=1 = 3 ranks, but the world has 4; set "
       "parallel.dp_shard=4 (or -1: the remaining ranks), or start 3 ranks"},
      {{"parallel.tp=3"},
       4,
       "3 ranks without dp_shard do not divide it; start a multiple of 3 ranks"},
      {{"parallel.tp=3", "parallel.dp_shard=2"},
       4,
       "= 6 ranks, but the world has 4; lower a degree, or start 6"},
      {{"parallel.pp=1024", "parallel.dp_replicate=65536", "parallel.dp_shard=65536",
        "parallel.cp=1024", "parallel.tp=1024"},
       4,
       "= 4611686018427387904 ranks, but the world has 4"},
      {{"run.global_batch=16", "run.micro_batch=4"},
       3,
       "run.global_batch=16 is not divisible by run.micro_batch=4 x parallel.dp_replicate=1 x "
       "parallel.dp_shard=3 = 12; nearest that work: run.global_batch=12 or run.global_batch=24"},
      {{"run.global_batch=2"}, 4, "= 4; nearest that work: run.global_batch=4"},
      {{"parallel.tp=8"},
       8,
       "parallel.tp=8 is more than model.heads=4: a rank needs at least one; lower it to 4 or "
       "less"},
      {{"parallel.tp=3", "model.vocab=2"}, 3, "model.vocab=2 is smaller than the dataset's"},
      {{"parallel.tp=4", "model.seq_len=3"},
       4,
       "parallel.tp=4 is more than model.seq_len=3 / parallel.cp=1 = 3: "},
      {{"parallel.cp=2", "model.seq_len=30"},
       2,
       "model.seq_len=30 is not divisible by 2 x parallel.cp=2 = 4, the chunks of the zigzag; "
       "nearest that work: model.seq_len=28 or model.seq_len=32"},
      {{"parallel.cp=8", "parallel.context=ulysses"},
       8,
       "parallel.cp=8 is more than model.heads=4 / parallel.tp=1 = 4: a rank needs a head for each "
       "that it exchanges with; lower it to 4 or less, or set parallel.context=ring"},
      {{"parallel.cp=2", "parallel.context=hierarchical"},
       2,
       "parallel.context=hierarchical:2: it must divide parallel.cp=2 into two or more groups; set "
       "parallel.context=ulysses (one group) or ring, or parallel.cp=4"},
      {{"model.hidden=30"},
       1,
       "model.hidden=30 is not divisible by model.heads=4; nearest that work: model.hidden=28 or "
       "model.hidden=32, or model.heads=3"},
      {{"model.family=llama", "model.kv_heads=3"}, 1, "model.heads=6, or model.kv_heads=2"},
      {{"model.kv_heads=2"}, 1, "has one key-value head per head; set model.kv_heads=4"},
      {{"model.family=llama", "model.hidden=12"}, 1, "= 3 per head: rotary"},
      {{"model.family=llama", "model.dropout=0.1"}, 1, "model.family=llama has no dropout"},
      {{"model.rope_theta=500000"}, 1, "model.family=gpt has no rotary positions"},
      {{"model.vocab=255"},
       1,
       "model.vocab=255 is smaller than the dataset's vocabulary of 256; set model.vocab=256 (or "
       "0)"},
      {{"precision.compute=fp64", "precision.master=fp32"},
       1,
       "precision.compute=fp64 with precision.master=fp32: needs precision.master=fp64 or auto, or "
       "another precision.compute"},
      {{"precision.compute=bf16", "precision.grads=fp64"},
       1,
       "precision.compute=bf16 with precision.grads=fp64: needs precision.grads=fp32, bf16 or "
       "auto"},
      {{"precision.reduce=fp64"},
       1,
       "precision.grads=fp32 with precision.reduce=fp64: needs precision.reduce=fp32, bf16 or "
       "auto"},
      {{"precision.compute=fp16", "precision.master=bf16"},
       1,
       "precision.compute=fp16 with precision.master=bf16: needs precision.master=fp32 or auto"},
      {{"precision.compute=bf16", "precision.grads=bf16"},
       1,
       "precision.grads=bf16 with precision.numerics=canonical: sums rounded to bf16 depend on "
       "where they are added; set precision.numerics=fast, or precision.grads=auto"},
      {{"precision.compute=bf16", "precision.grads=bf16", "precision.reduce=fp32",
        "precision.numerics=fast"},
       1,
       "precision.grads=bf16 with precision.reduce=fp32: needs precision.reduce=bf16 or auto"},
      {{"precision.loss_scale=large"},
       1,
       "precision.loss_scale=large: needs auto, off, dynamic or a number above 0, such as 1024"},
      {{"precision.loss_scale=-2"}, 1, "precision.loss_scale=-2: needs auto"},
      {{"precision.loss_scale=1e999"}, 1, "precision.loss_scale=1e999: needs auto"},
      {{"optim.states=int8", "parallel.tp=2"},
       2,
       "optim.states=int8 with parallel.tp=2: tp ranks hold copies of some parameters in"},
      {{"optim.states=int8", "precision.compute=fp64"},
       1,
       "optim.states=int8 with precision.master=fp64"},
      {{"optim.min_lr=0.1"}, 1, "optim.min_lr=0.1 is more than optim.lr=0.001"},
      {{"optim.warmup_steps=101"}, 1, "optim.warmup_steps=101 is more than run.steps=100"},
      {{"optim.warmup_steps=60", "optim.decay_steps=50"}, 1, "more than optim.decay_steps=50"},
      {{"optim.warmup_lr=1e-2", "optim.warmup_steps=10"},
       1,
       "optim.warmup_lr=0.01 is more than optim.lr=0.001"},
      {{"optim.warmup_lr=1e-4"},
       1,
       "optim.warmup_lr=0.0001 with optim.warmup_steps=0: it has no effect"},
      {{"jepa.momentum=[0.9, 1]"}, 1, "jepa.momentum=[0.9, 1]: family gpt does not use it"},
      {{"optim.schedule=wsd:0.5", "optim.warmup_steps=60"},
       1,
       "optim.warmup_steps=60 + optim.schedule=wsd:0.5 x optim.decay_steps=100 = 110 is more than"},
      {{"run.eval_every=10", "data.validation=0"}, 1, "run.eval_every=10 with data.validation=0: "},
      {{"run.global_batch=32", "run.micro_batch=32"},
       2,
       "nearest that work: run.global_batch=64; or, with this batch, run.micro_batch=16"},
      {{"run.global_batch=12", "run.micro_batch=5"}, 2, "with this batch, run.micro_batch=3"},
      {{"data.validation=0.7"}, 1, "data.validation=0.7: a fraction is at most 0.5"},
      {{"data.validation=20.5"}, 1, "data.validation=20.5: a fraction is at most 0.5"},
      {{"run.trace=101"}, 1, "run.trace=101 is more than run.steps=100"},
  };
  for (const Conflict& conflict : kTable) {
    Job job;
    for (const std::string& set : conflict.sets) apply_set(job, set);
    const std::string message =
        usage_error_of([&] { resolve(job, conflict.world, {.vocab = 256}); });
    EXPECT_THAT(message, HasSubstr(conflict.fragment));
  }
  EXPECT_THAT(usage_error_of([] { resolve(Job{}, 1, {}); }),
              HasSubstr("not known here; set model.vocab"));
}

TEST(LoadJob, OfNoFileIsUsage) {
  EXPECT_THAT(usage_error_of([] { load_job("/nonexistent/job.yaml"); }),
              HasSubstr("/nonexistent/job.yaml"));
  EXPECT_THAT(usage_error_of([] { load_job("/dev/zero"); }), HasSubstr("/dev/zero"));
  EXPECT_THAT(usage_error_of([] { load_job("/"); }), HasSubstr("/"));
}

}  // namespace
}  // namespace trireme::config::broken_test
