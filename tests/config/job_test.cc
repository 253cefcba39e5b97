#include "trireme/config/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include "tests/config/error_of.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/values/yaml.h"

namespace trireme::config::job_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::uint64_t below(std::mt19937_64& random, std::uint64_t n) { return random() % n; }

double draw_number(std::mt19937_64& random, const Range& range) {
  // 53 random bits reach every corner of the shortest round-trip text.
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  switch (below(random, 4)) {
    case 0: return range.above_min ? std::nextafter(range.min, range.max) : range.min;
    case 1: return range.below_max ? std::nextafter(range.max, range.min) : range.max;
    case 2:
      return range.min + (range.max - range.min) * unit * 1e-6 + (range.above_min ? 1e-300 : 0);
    default: {
      const double drawn = range.min + (range.max - range.min) * unit;
      const bool excluded =
          (range.above_min && drawn == range.min) || (range.below_max && drawn == range.max);
      return excluded ? (range.min + range.max) / 2 : drawn;
    }
  }
}

std::string draw_text(std::mt19937_64& random) {
  constexpr std::string_view kPieces[] = {"a",  "data/x.bin", " ", ": ", "#",    "\"", "\\",   "'",
                                          "é",  "~",          "[", "}",  "null", "-",  "true", "12",
                                          "&x", "漢字",       "%", ",",  "\\n",  "!",  "|",    ">",
                                          "@",  "`",          "*", "? ", ".inf", "="};
  std::string text;
  for (std::uint64_t i = below(random, 5); i > 0; --i)
    text += kPieces[below(random, std::size(kPieces))];
  return text;
}

// Any value that the field allows.
Value draw(std::mt19937_64& random, const Field& field) {
  switch (field.kind) {
    case Field::Kind::kBool: return below(random, 2) == 1;
    case Field::Kind::kText: return draw_text(random);
    case Field::Kind::kChoice: return field.choices[below(random, field.choices.size())];
    case Field::Kind::kNumber: return draw_number(random, field.range);
    case Field::Kind::kTwoNumbers: {
      std::array<double, 2> pair = {draw_number(random, field.range),
                                    draw_number(random, field.range)};
      for (std::size_t i = 0; i < pair.size(); ++i)
        if (field.whole[i]) pair[i] = std::floor(pair[i]);
      return pair;
    }
    case Field::Kind::kBytes:
      return Bytes{static_cast<std::int64_t>((random() >> 11) >> below(random, 53))};
    case Field::Kind::kMaps: {
      Maps maps(below(random, 3));
      for (Maps::value_type& map : maps)
        for (const FieldForm& entry : field.entries)
          if (entry.key == "name")  // of an optimizer
            map.emplace_back(entry.key,
                             std::string(kOptimizers[below(random, std::size(kOptimizers))].key));
          else if (entry.kind == Field::Kind::kText)
            map.emplace_back(entry.key, draw_text(random));
          else if (below(random, 2) == 0)
            map.emplace_back(entry.key, draw_number(random, entry.range));
      return maps;
    }
    case Field::Kind::kInteger: break;
  }
  if (field.range.also && below(random, 4) == 0) return *field.range.also;
  const auto min = static_cast<std::int64_t>(field.range.min);
  const auto max = static_cast<std::int64_t>(field.range.max);
  if (below(random, 4) == 0) return below(random, 2) == 0 ? min : max;
  return min + static_cast<std::int64_t>(below(random, static_cast<std::uint64_t>(max - min) + 1));
}

Job draw_job(std::mt19937_64& random) {
  Job job;
  for (const Field& field : fields()) field.set(job, draw(random, field));
  return job;
}

// A value that differs from what the job has, or nothing when the field has only one.
std::optional<Value> another(std::mt19937_64& random, const Field& field, const Job& job) {
  for (int i = 0; i < 100; ++i) {
    const Value value = draw(random, field);
    if (value != field.get(job)) return value;
  }
  return std::nullopt;
}

TEST(Fields, AreNamedOnceAndGroupedBySection) {
  std::set<std::string> keys;
  std::set<std::string_view> names;
  for (std::string_view section : sections()) EXPECT_TRUE(names.insert(section).second) << section;
  for (const Field& field : fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(names.contains(field.section())) << field.key;
    EXPECT_EQ(find_field(field.key), &field);
    EXPECT_TRUE(field.doc.ends_with('.')) << field.key;
  }
  EXPECT_EQ(find_field("model"), nullptr);
}

// DESIGN: names that others rely on.
TEST(Fields, ContractNamesExist) {
  for (const char* key : {"model.family",
                          "model.layers",
                          "model.hidden",
                          "model.heads",
                          "model.kv_heads",
                          "model.ffn",
                          "model.vocab",
                          "model.seq_len",
                          "model.tied",
                          "data.path",
                          "data.tokenizer",
                          "data.seed",
                          "parallel.pp",
                          "parallel.dp_replicate",
                          "parallel.dp_shard",
                          "parallel.cp",
                          "parallel.tp",
                          "parallel.sequence_parallel",
                          "parallel.context",
                          "parallel.zero",
                          "precision.compute",
                          "precision.master",
                          "precision.grads",
                          "precision.reduce",
                          "precision.nodes",
                          "precision.loss_scale",
                          "optim.states",
                          "precision.numerics",
                          "recompute.policy",
                          "recompute.logits",
                          "offload.optimizer",
                          "offload.params",
                          "offload.grads",
                          "offload.activations",
                          "offload.path",
                          "network.nccl",
                          "optim.name",
                          "optim.lr",
                          "optim.min_lr",
                          "optim.warmup_steps",
                          "optim.schedule",
                          "optim.warmup_lr",
                          "optim.weight_decay",
                          "optim.groups",
                          "optim.betas",
                          "optim.eps",
                          "optim.clip",
                          "run.steps",
                          "run.global_batch",
                          "run.micro_batch",
                          "run.seed",
                          "run.log_every",
                          "run.eval_every",
                          "checkpoint.every",
                          "checkpoint.keep_last"})
    EXPECT_NE(find_field(key), nullptr) << key;
}

// Each field alone: a new value survives printing and parsing, --set gives the same job, the digest
// changes, and diff names this key and no other (so no two fields share a member).
TEST(Fields, EachRoundTripsAndCounts) {
  std::mt19937_64 random(7);
  std::vector<std::string> constant;
  for (const Field& field : fields()) {
    const std::optional<Value> value = another(random, field, Job{});
    if (!value) {
      constant.push_back(field.key);
      continue;
    }
    Job changed;
    field.set(changed, *value);
    EXPECT_EQ(field.get(changed), *value) << field.key;
    EXPECT_NE(changed, Job{}) << field.key;
    EXPECT_EQ(parse_job(print_yaml(changed), "job"), changed) << field.key;
    EXPECT_NE(digest(changed), digest(Job{})) << field.key;

    Job set;
    const std::string raw =
        field.kind == Field::Kind::kText ? std::get<std::string>(*value) : write_value(*value);
    apply_set(set, field.key + "=" + raw);
    EXPECT_EQ(set, changed) << field.key;

    const std::vector<Difference> found = diff(Job{}, changed);
    ASSERT_EQ(found.size(), 1u) << field.key;
    EXPECT_EQ(found[0].key, field.key);
    EXPECT_EQ(found[0].before, write_value(field.get(Job{})));
    EXPECT_EQ(found[0].after, write_value(*value));
  }
  EXPECT_THAT(constant, IsEmpty());
}

TEST(Fields, RandomJobsRoundTrip) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 500; ++i) {
    const Job job = draw_job(random);
    const std::string text = print_yaml(job);
    const Job back = parse_job(text, "job.yaml");
    ASSERT_EQ(back, job) << text;
    ASSERT_EQ(print_yaml(back), text);
    ASSERT_EQ(digest(back), digest(job));
    ASSERT_TRUE(diff(job, back).empty());
  }
}

// Damaged text parses or is refused in one line; nothing else happens.
TEST(ParseJob, SurvivesDamage) {
  constexpr std::string_view kBytes = " \n:,[]{}#&*!|>'\"%@`-?.~0e\t\\\x01\xff<=a";
  std::mt19937_64 random(13);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = print_yaml(draw_job(random));
    for (std::uint64_t edits = 1 + below(random, 4); edits > 0; --edits) {
      const std::size_t at = below(random, text.size());
      switch (below(random, 3)) {
        case 0: text[at] = kBytes[below(random, kBytes.size())]; break;
        case 1: text.insert(at, 1, kBytes[below(random, kBytes.size())]); break;
        default: text.erase(at, 1 + below(random, 20));
      }
    }
    try {
      const Job job = parse_job(text, "job.yaml");
      ASSERT_EQ(parse_job(print_yaml(job), "again"), job) << text;
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::kUsage) << e.what();
      ASSERT_THAT(e.what(), Not(HasSubstr("\n"))) << text;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ParseJob, TakesJson) {
  const Job job = parse_job(
      "{\n\t\"model\": {\"layers\": 3, \"tied\": false, \"norm_eps\": 1e-6},\n"
      "\t\"optim\": {\"betas\": [0.9, 0.99]},\n\t\"data\": {\"path\": \"a b\"}\n}\n",
      "job.json");
  EXPECT_EQ(job.model.layers, 3);
  EXPECT_FALSE(job.model.tied);
  EXPECT_EQ(job.model.norm_eps, 1e-6);
  EXPECT_EQ(job.optim.betas[1], 0.99);
  EXPECT_EQ(job.data.path, "a b");
}

TEST(ParseJob, NumbersAsTheFieldWritesThem) {
  const Job job = parse_job(
      "optim:\n  lr: 1e-4\n  clip: +5\nrun: {steps: 5e8, seed: 1.0e3}\nmodel:\n  layers: 2   # "
      "two\n",
      "job");
  EXPECT_EQ(job.optim.lr, 1e-4);
  EXPECT_EQ(job.optim.clip, 5);
  EXPECT_EQ(job.run.steps, 500'000'000);
  EXPECT_EQ(job.run.seed, 1000);
  EXPECT_EQ(job.model.layers, 2);
}

// A section whose lines are all commented out is like an absent one.
TEST(ParseJob, EmptySectionHasDefaults) {
  EXPECT_EQ(parse_job("optim:\nmodel: {}\n", "job"), Job{});
}

TEST(Fields, SizesAreWrittenAsPeopleWriteThem) {
  const FieldForm field{.key = "run.size", .kind = FieldForm::Kind::kBytes};
  const auto read = [&](const std::string& text, bool quoted) {
    return read_value(field, {.kind = YamlNode::Kind::kScalar, .text = text, .quoted = quoted},
                      "job.yaml:1:1: ");
  };
  EXPECT_EQ(read("20GiB", false), Value(Bytes{20LL << 30}));
  EXPECT_EQ(read("512 MB", true), Value(Bytes{512'000'000}));
  EXPECT_EQ(read("1e9", false), Value(Bytes{1'000'000'000}));
  EXPECT_EQ(write_value(Bytes{20LL << 30}), "20GiB");
  EXPECT_EQ(write_value(Bytes{0}), "0");
  EXPECT_EQ(
      usage_error_of([&] { read("20 gigs", false); }),
      "job.yaml:1:1: run.size: \"20 gigs\" is not a size; needs a size such as 20GiB, 512MiB or "
      "1e9");
  EXPECT_THAT(usage_error_of([&] { read_value(field, {.kind = YamlNode::Kind::kList}, ""); }),
              HasSubstr("run.size: has a list; needs a size"));
}

TEST(ApplySet, TakesBothForms) {
  Job job;
  apply_set(job, "model.layers=7");
  apply_set(job, "--optim.betas=[0.8, 0.9]");
  apply_set(job, "data.path=a=b: [c] # d");
  apply_set(job, "parallel.dp_shard=-1");
  apply_set(job, "precision.master=fp32");
  EXPECT_EQ(job.model.layers, 7);
  EXPECT_EQ(job.optim.betas[0], 0.8);
  EXPECT_EQ(job.data.path, "a=b: [c] # d");
  EXPECT_EQ(job.precision.master, DType::kF32);
  apply_set(job, "data.path=");
  EXPECT_EQ(job.data.path, "");
}

TEST(Resume, FixedKeysAreNamedOthersMayChange) {
  std::mt19937_64 random(17);
  for (const Field& field : fields()) {
    const std::optional<Value> value = another(random, field, Job{});
    if (!value) continue;
    Job now;
    field.set(now, *value);
    for (ParamGroup& group : now.optim.groups) group.name = {};  // optimizer_test
    if (field.fixed) {
      EXPECT_THAT(usage_error_of([&] { check_resumable(Job{}, now); }),
                  HasSubstr(field.key + " was "));
    } else {
      EXPECT_NO_THROW(check_resumable(Job{}, now)) << field.key;
    }
  }
  for (std::string_view free : {"parallel", "checkpoint", "recompute", "offload"})
    for (const Field& field : fields())
      if (field.section() == free) {
        EXPECT_FALSE(field.fixed) << field.key;
      }
  for (const char* key : {"model.layers", "data.seed", "run.seed", "run.global_batch",
                          "run.micro_batch", "optim.name"})
    EXPECT_TRUE(find_field(key)->fixed) << key;
  EXPECT_FALSE(find_field("run.steps")->fixed);

  Job now;
  now.model.layers = 4;
  now.run.seed = 9;
  EXPECT_EQ(usage_error_of([&] { check_resumable(Job{}, now); }),
            "cannot resume: model.layers was 2, is 4, run.seed was 1, is 9; these keys are fixed "
            "for the life of "
            "a run: restore them, or start a new run");
}

TEST(Help, DocsConfigIsGenerated) {
  const std::string stored = read_file(Path(TRIREME_SOURCE_DIR) / "docs" / "config.md");
  EXPECT_EQ(stored, help_config())
      << "regenerate: build/release/bin/trireme train --help-config > docs/config.md";
}

TEST(Help, NamesEveryKeyWithItsDefault) {
  const std::string text = help_config();
  for (const Field& field : fields()) {
    EXPECT_TRUE(field.fixed || !(field.inherited || field.compared))
        << field.key;  // the marks say so
    EXPECT_THAT(text, HasSubstr(fmt::format("- `{}` ({}; default `{}`", field.key, describe(field),
                                            write_value(field.get(Job{})))));
  }
}

}  // namespace
}  // namespace trireme::config::job_test
