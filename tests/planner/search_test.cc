#include "trireme/planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/planner/cards.h"
#include "tests/planner/synthetic_machine.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/planner/cost/estimate.h"
#include "trireme/planner/hardware/calibrate.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/search/report/answer_print.h"
#include "trireme/planner/search/report/choices.h"
#include "trireme/planner/search/report/reasons.h"
#include "trireme/planner/search/screened.h"
#include "trireme/planner/search/space.h"

namespace trireme::planner::search_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Hosts of four, slow between them: where a layout lies in the machine matters.
Cluster hosts(int count, double gib = 40) {
  Cluster cluster;
  cluster.name = "hosts";
  cluster.gpu = synthetic_card(gib);
  cluster.gpu.watts = 400;
  cluster.gpu.fitted = true;
  cluster.gpus_per_host = 4;
  cluster.hosts = count;
  cluster.tiers = {{.name = "inside", .span = 4, .rate = 200e9, .latency_s = 3e-6},
                   {.name = "between", .rate = 10e9, .latency_s = 1e-5}};
  cluster.host_memory = std::int64_t{256} << 30;
  cluster.host_rate = 20e9;
  cluster.failures_per_gpu_hour = 1e-4;
  cluster.restart_s = 300;
  cluster.checkpoint_rate = 1e9;
  cluster.prices = {{.provider = "a", .on_demand = 3, .spot = 1, .notice_s = 60}};
  return cluster;
}

config::Job gpt(std::int64_t layers, std::int64_t hidden, std::int64_t batch) {
  config::Job job;
  job.model = {
      .layers = layers, .hidden = hidden, .heads = hidden / 128, .vocab = 32000, .seq_len = 1024};
  job.precision.compute = DType::kBF16;
  job.run.global_batch = batch;
  return job;
}

Answer ask(const config::Job& job, const Cluster& cluster, int gpus = 0,
           std::vector<std::string> kept = {}) {
  return search({.job = job, .cluster = cluster, .gpus = gpus, .kept = std::move(kept)},
                {.options = 3, .explain = false});
}

template <typename Ask>
std::string error_of(ErrorKind kind, const Ask& ask) {
  try {
    ask();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

// Every layout that the question leaves open, priced by the second screen.
std::vector<Priced> all_priced(const Question& question, const Screened& screened) {
  std::vector<Priced> all;
  for_layouts(question, screened.screen(), Away::kNothing, [&](const Layout& layout, const auto&) {
    if (const std::optional<Priced> priced = screened.estimated(layout)) all.push_back(*priced);
  });
  return all;
}

struct Size {
  const char* name;
  std::int64_t layers, hidden, batch;
  double gib;
};

class NothingIsLost : public ::testing::TestWithParam<Size> {};

// What the screens return is within 1 % of the best of all layouts that fit, each priced without closed forms.
TEST_P(NothingIsLost, AgainstFullEnumeration) {
  const Size& size = GetParam();
  const config::Job job = gpt(size.layers, size.hidden, size.batch);
  const Question question = completed({.job = job, .cluster = hosts(2, size.gib)});
  const Answer answer = ask(job, question.cluster);
  const Screened screened(question, Away::kNothing);
  const std::vector<Priced> all = all_priced(question, screened);
  ASSERT_GT(all.size(), 500u);
  int faster = 0;
  for (const Priced& priced : all) {
    if (priced.estimate * 1.01 >= answer.options.front().seconds) continue;
    const std::optional<Option> option = compiled(question, priced);
    if (!option) continue;  // it does not fit
    ++faster;
    EXPECT_GE(option->seconds * 1.01, answer.options.front().seconds) << text(priced.layout);
  }
  RecordProperty("faster_by_estimate", faster);
}
INSTANTIATE_TEST_SUITE_P(TwoHostsOfFour, NothingIsLost,
                         ::testing::Values(Size{"roomy", 4, 1024, 16, 40},
                                           Size{"tight", 6, 2048, 16, 7},
                                           Size{"tighter", 8, 4096, 8, 16}),
                         [](const auto& info) { return info.param.name; });

// The closed forms are within a few per cent of the clock of the schedule, over all that they price.
TEST(Screen, IsNearTheEstimate) {
  const Question question = completed({.job = gpt(8, 2048, 32), .cluster = hosts(2)});
  const Screened screened(question, Away::kNothing);
  double sum = 0;
  const std::vector<Priced> all = all_priced(question, screened);
  for (const Priced& priced : all) sum += std::abs(priced.price.seconds / priced.estimate - 1);
  EXPECT_LT(sum / static_cast<double>(all.size()), 0.06);
}

// Ranks 3, 4 and 5 of hosts of four: closed forms see that as well as estimates, and nobody says that they stay inside.
TEST(Screen, SeesGroupsThatStraddleHosts) {
  const Question question = completed({.job = gpt(8, 1536, 48), .cluster = hosts(3)});
  const Screened screened(question, Away::kNothing);
  const std::optional<Priced> priced = screened.estimated(
      {.dp_shard = 4, .tp = 3, .micro_batch = 4, .zero = 1, .sequence_parallel = true});
  ASSERT_TRUE(priced);
  EXPECT_NEAR(priced->price.seconds / priced->estimate, 1, 0.1);
  const Answer answer{.question = question, .options = {compiled(question, *priced).value()}};
  for (const Reason& reason : reasons(answer, screened))
    EXPECT_THAT(reason.text, ::testing::Not(HasSubstr("stays inside")));
}

TEST(Search, MoreGpusAreNeverSlower) {
  double before = 1e9;
  for (const int gpus : {1, 2, 4, 8, 16, 32}) {
    const double seconds = ask(gpt(8, 2048, 64), hosts(8), gpus).options.front().seconds;
    EXPECT_LT(seconds, before * 1.006) << gpus;
    before = seconds;
  }
}

TEST(Search, MoreMemoryIsNeverSlower) {
  double before = 1e9;
  for (const double gib : {8, 12, 20, 40, 80}) {
    const Answer answer = ask(gpt(16, 2048, 64), hosts(2, gib));
    const Option& best = answer.options.front();
    EXPECT_LE(needed(answer.question, best), memory_of(answer.question));
    EXPECT_LT(best.seconds, before * 1.006) << gib;
    before = best.seconds;
  }
}

TEST(Search, CheaperIsNeverDearer) {
  const Answer answer = ask(gpt(8, 2048, 64), hosts(2));
  const Option& best = answer.options.front();
  const Spending before = spending(answer.question, best, 1e9);
  EXPECT_LT(dollars(before.spot->bill), dollars(before.on_demand->bill));
  // The cheapest of each kind, wherever it is offered.
  Question more = answer.question;
  more.cluster.prices.push_back({.provider = "b", .on_demand = 2.5, .spot = 1.5});
  more.cluster.prices.push_back({.provider = "c", .on_demand = 9});
  const Spending after = spending(more, best, 1e9);
  EXPECT_EQ(after.on_demand->provider, "b");
  EXPECT_EQ(after.spot->provider, "a");
  EXPECT_NEAR(dollars(after.on_demand->bill) / after.gpu_hours, 2.5, 0.01);
}

TEST(Search, MoneyTakesFewerGpusWhereMoreGainLittle) {
  const Question question{.job = gpt(8, 1024, 32), .cluster = hosts(8)};
  const Option time = search(question, {.explain = false}).options.front();
  const Option money =
      search(question, {.by = Objective::kMoney, .explain = false}).options.front();
  EXPECT_LT(money.seconds * money.layout.world(), time.seconds * time.layout.world());
  EXPECT_LT(money.layout.world(), time.layout.world());
}

// Where a token costs as much on any number of GPUs, more of them end sooner.
TEST(Search, MoneyTakesTheFastestOfWhatCostsAsMuch) {
  Cluster cluster = hosts(1);
  for (auto& tier : cluster.tiers) tier = {.name = tier.name, .span = tier.span, .rate = 1e18};
  cluster.gpu.efficiency.kernel_s = 0;
  cluster.gpu.efficiency.shared = 1;
  const config::Job job = gpt(8, 2048, 64);  // with micro-batches of 1
  const std::vector<std::string> kept = {"run.micro_batch"};
  const Answer answer =
      search({.job = job, .cluster = cluster, .kept = kept}, {.by = Objective::kMoney});
  const auto cost = [](const Option& option) { return option.seconds * option.layout.world(); };
  const Option& best = answer.options.front();
  for (const int gpus : {1, 2, 4}) {
    const Option other = ask(job, cluster, gpus, kept).options.front();
    EXPECT_LT(cost(best), 1.006 * cost(other)) << gpus;
    if (cost(other) < 1.004 * cost(best)) {
      EXPECT_LE(best.seconds, other.seconds) << gpus;
    }
  }
  EXPECT_EQ(best.layout.world(), 4);
  ASSERT_FALSE(answer.reasons.empty());
  EXPECT_THAT(answer.reasons.front().text, HasSubstr("4 GPUs: a token costs"));
}

// What is returned is what compiles: its job resolves to itself and says the layout.
TEST(Search, TheJobIsTheLayout) {
  const Answer answer = ask(gpt(8, 2048, 64), hosts(2));
  for (const Option& option : answer.options) {
    EXPECT_EQ(config::resolve(option.job, option.layout.world(), {}), option.job);
    EXPECT_EQ(option.job.parallel.tp, option.layout.tp);
    EXPECT_EQ(option.job.parallel.dp_shard, option.layout.dp_shard);
    EXPECT_EQ(option.job.run.micro_batch, option.layout.micro_batch);
    EXPECT_EQ(option.job, config::parse_job(config::print_yaml(option.job), "printed"));
  }
}

// Neither more than there is to compute, nor a search that stops at what frozen blocks cannot compute again.
TEST(Search, PlansWhatIsPartlyFrozen) {
  const Answer all = ask(gpt(8, 2048, 64), hosts(2));
  for (const char* frozen : {"embed,block.[0-6]", "block.*"}) {
    config::Job job = gpt(8, 2048, 64);
    job.model.frozen = frozen;
    const Answer answer = search({.job = job, .cluster = hosts(2)}, {.options = 3});
    const Option& best = answer.options.front();
    EXPECT_NEAR(best.screen / best.seconds, 1, 0.15) << frozen;
    EXPECT_TRUE(std::ranges::any_of(answer.reasons, [](const Reason& one) {
      return one.choice == Choice::kRecomputed && one.text.find("longer") != std::string::npos;
    })) << frozen;
    EXPECT_LT(best.seconds, all.options.front().seconds) << frozen;
    EXPECT_LT(best.mfu(answer.question.cluster), 1.2 * all.options.front().mfu(hosts(2)));
    EXPECT_LT(best.model_flops, 0.8 * all.options.front().model_flops);
  }
  config::Job lora = gpt(8, 2048, 64);
  lora.lora.rank = 16;
  const auto bytes = [](const Answer& answer) {
    return spending(answer.question, answer.options.front(), 1e9).checkpoint_bytes;
  };
  const Answer adapted = ask(lora, hosts(2));
  EXPECT_LT(bytes(adapted), 0.3 * bytes(all));
  lora.lora.dropout = 0.1;
  EXPECT_THAT(search({.job = lora, .cluster = hosts(2)}, {.options = 1}).notes,
              Contains("lora.dropout=0.1: the noise of adapters is not priced"));
  lora.lora.dropout = 0;
  EXPECT_NEAR(adapted.options.front().screen / adapted.options.front().seconds, 1, 0.15);
  lora.checkpoint.trainable_only = true;
  lora.model.weights = "base";
  EXPECT_LT(bytes(ask(lora, hosts(2))), 0.1 * bytes(all));
}

// Of the best option, as a share of its step.
double band_width(const Answer& answer) {
  const Json best = answer_json(answer, {})["options"][0];
  const double low = best["step_s_80"][0], high = best["step_s_80"][1];
  return (high - low) / best["step_s"].get<double>();
}

// Where nothing was measured the band is that of guesses, and it is said.
TEST(Search, HasAWiderBandWhereTheGpuWasNotMeasured) {
  const auto answer_of = [](const std::string& gpu) {
    Cluster cluster = hosts(1);
    cluster.gpu = find_gpu(gpu);
    return search({.job = gpt(4, 1024, 16), .cluster = cluster}, {.options = 1});
  };
  const Answer measured = answer_of("a100-80"), guessed = answer_of("b200");
  const char* note = "nothing was measured on a b200";
  EXPECT_NEAR(band_width(measured), 0.16, 1e-9);
  EXPECT_NEAR(band_width(guessed), 0.45, 1e-9);
  EXPECT_THAT(answer_text(measured, {}), HasSubstr(" a step, four times of five "));
  EXPECT_THAT(answer_text(measured, {}), Not(HasSubstr("nothing was measured")));
  EXPECT_THAT(answer_text(guessed, {}), HasSubstr(note));
}

TEST(Search, RefusesTypesThatTheGpuHasNot) {
  Cluster cluster = hosts(1);
  cluster.gpu = find_gpu("v100-32");
  config::Job job = gpt(4, 1024, 16);
  EXPECT_EQ(error_of(ErrorKind::kUsage, [&] { ask(job, cluster); }),
            "gpu v100-32 has no bf16; set precision.compute=fp16, or choose another gpu");
  job.precision.compute = DType::kF16;
  const Answer answer = search({.job = job, .cluster = cluster}, {.options = 1});
  EXPECT_THAT(answer.notes, Contains(HasSubstr("steps whose gradients overflow are skipped")));
  EXPECT_THAT(answer_text(answer, {}), HasSubstr("of the data sheet's fp16"));
}

TEST(Search, DropoutIsPaidForAndSaid) {
  config::Job job = gpt(4, 1024, 16);
  const Answer plain = search({.job = job, .cluster = hosts(1)}, {.options = 1});
  EXPECT_THAT(plain.notes, Not(Contains(HasSubstr("not fused"))));
  job.model.dropout = 0.1;
  const Answer answer = search({.job = job, .cluster = hosts(1)}, {.options = 1});
  EXPECT_GT(answer.options.front().seconds, 1.2 * plain.options.front().seconds);
  EXPECT_GT(band_width(answer), band_width(plain));
  EXPECT_THAT(answer.notes,
              Contains(HasSubstr("model.dropout=0.1: attention on GPUs is not fused then")));
}

config::Job small(std::int64_t batch) {
  config::Job job;
  job.model = {.layers = 4, .hidden = 256, .heads = 4, .vocab = 512, .seq_len = 128};
  job.run.global_batch = batch;
  return job;
}

// A machine that was calibrated is a cluster: its steps are those that explain and train forecast there.
TEST(Search, PlansForACalibratedMachine) {
  const Cluster machine = synthetic_calibration().machine;
  const Answer answer = ask(small(16), machine);
  EXPECT_EQ(answer.question.job.run.device, config::Device::kCpu);
  for (const Option& option : answer.options) {
    const StepForecast forecast =
        forecast_step(Candidate(option.job, own_practice()).plan(), option.job, machine);
    EXPECT_DOUBLE_EQ(option.seconds, forecast.step_s) << text(option.layout);
    EXPECT_DOUBLE_EQ(option.high, forecast.high_s);
    EXPECT_NEAR(option.estimate / option.seconds, 1, 0.05) << text(option.layout);
  }
  EXPECT_LT(answer.options.front().seconds, ask(small(16), machine, 1).options.front().seconds);
  // One rank has the memory of both cores, two have a half each; a process is held once.
  Question one{.job = small(16), .cluster = machine, .gpus = 1}, two = one;
  two.gpus = 2;
  EXPECT_EQ(memory_of(one), std::int64_t{8} << 30);
  EXPECT_EQ(memory_of(two), std::int64_t{4} << 30);
  EXPECT_DOUBLE_EQ(memory_constants(two).context, 190e6 / 2 + 3.3e6);
  config::Job wide = small(16);
  wide.precision.compute = DType::kF64;
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(wide, machine); }), HasSubstr("fp64"));
}

// A GPU whose file does not say how many units it has is none the less one.
TEST(Search, CoresAreThoseThatSaySo) {
  Cluster cluster = hosts(1);
  cluster.gpu.units = 0;
  const Answer answer = ask(gpt(8, 1024, 16), cluster);
  EXPECT_EQ(answer.options.front().job.run.device, config::Device::kCuda);
  EXPECT_GT(answer.options.front().memory.term("context"), 0);
  EXPECT_GT(answer.options.front().memory.term("holes"), 0);
  cluster.gpu.cpu = true;
  EXPECT_EQ(ask(gpt(8, 1024, 16), cluster).options.front().job.run.device, config::Device::kCpu);
}

TEST(Search, KeepsWhatIsKept) {
  config::Job job = gpt(8, 2048, 64);
  job.parallel.pp = 2;
  job.parallel.schedule = "zb_h1";
  job.recompute.policy = config::RecomputePolicy::kFull;
  job.recompute.every = 2;
  job.run.micro_batch = 2;
  const Answer answer =
      ask(job, hosts(2), 8,
          {"parallel.pp", "parallel.schedule", "recompute.policy", "run.micro_batch"});
  const config::Job& best = answer.options.front().job;
  EXPECT_EQ(best.parallel.pp, 2);
  EXPECT_EQ(best.parallel.schedule, "zb_h1");
  EXPECT_EQ(best.recompute.policy, config::RecomputePolicy::kFull);
  EXPECT_EQ(best.run.micro_batch, 2);
  EXPECT_EQ(best.recompute.every, 2);
  // And nothing else.
  EXPECT_EQ(ask(job, hosts(2), 8).options.front().job.recompute.every, 0);
}

// Of settings that a search would choose as well it says what they are.
TEST(Search, NamesWhatIsKept) {
  const Option chosen = ask(gpt(8, 2048, 64), hosts(2)).options.front();
  std::vector<std::string> every;
  for (const config::Field& field : config::fields())
    if (planner::chosen(field.key)) every.emplace_back(field.key);
  const Option kept = ask(chosen.job, hosts(2), 8, every).options.front();
  EXPECT_EQ(kept.layout, chosen.layout);
  EXPECT_EQ(kept.job, chosen.job);
  // How long to wait for others is no choice of a search, and stays without being kept.
  config::Job patient = gpt(8, 2048, 64);
  patient.parallel.comm_timeout_s = 77;
  EXPECT_FALSE(planner::chosen("parallel.comm_timeout_s"));
  EXPECT_EQ(ask(patient, hosts(2)).options.front().job.parallel.comm_timeout_s, 77);
}

// A limit on memory is of the rank that computes, not of a rank alone with the whole model.
TEST(Search, KeepsRecomputationThatFitsItsLimit) {
  config::Job job = gpt(16, 2048, 64);
  job.recompute.policy = config::RecomputePolicy::kAuto;
  job.recompute.memory = {.count = std::int64_t{9} << 30};
  const std::vector<std::string> kept = {"recompute.policy", "recompute.memory"};
  const Option best = ask(job, hosts(2), 8, kept).options.front();
  EXPECT_EQ(best.job.recompute.policy, config::RecomputePolicy::kAuto);
  EXPECT_LE(best.memory.allocated(), 9.0 * (1 << 30));
  job.recompute.memory = {.count = std::int64_t{1} << 28};
  EXPECT_THAT(error_of(ErrorKind::kOutOfMemory, [&] { ask(job, hosts(2), 8, kept); }),
              HasSubstr("recompute.memory=256MiB"));
}

// Closed forms know what a job offloads: to disks nothing of the host's, and activations as well.
TEST(Screen, CountsWhatAJobOffloads) {
  config::Job job = gpt(16, 2048, 64);
  job.recompute.policy = config::RecomputePolicy::kFull;
  Cluster cluster = hosts(2);
  cluster.disk_rate = 5e9;
  const auto price = [&](std::vector<std::string> kept) {
    kept.emplace_back("recompute.policy");
    const Question question = completed({.job = job, .cluster = cluster, .kept = kept});
    const Layout layout{.dp_shard = 8,
                        .micro_batch = 8,
                        .zero = 1,
                        .recomputed = Recomputed::kAsGiven,
                        .away = Away::kAsGiven};
    const Screened screened(question, Away::kNothing);
    const std::optional<Priced> priced = screened.estimated(layout);
    const std::optional<Option> option = compiled(question, *priced);
    EXPECT_TRUE(option.has_value());
    EXPECT_NEAR(priced->price.host / std::max(option->host, 1.0), option->host > 0, 0.1);
    EXPECT_NEAR(priced->price.bytes / needed(question, *option), 1, 0.1);
    EXPECT_NEAR(priced->price.seconds / option->seconds, 1, 0.15);
    return priced->price;
  };
  const Costs none = price({});
  job.offload.optimizer = Tier::kNvme;
  const Costs disk = price({"offload.optimizer"});
  EXPECT_EQ(disk.host, 0);
  EXPECT_LT(disk.bytes, none.bytes);
  EXPECT_GT(disk.seconds, none.seconds);
  job.offload.optimizer = Tier::kNone;
  job.offload.activations = Tier::kHost;
  const Costs activations = price({"offload.activations"});
  EXPECT_GT(activations.host, 0);
  EXPECT_LT(activations.bytes, none.bytes);
}

// Plans of very many micro-batches are not compiled whole, and that is said.
TEST(Search, TakesLargeBatches) {
  const Answer answer = search({.job = gpt(4, 1024, 1 << 30), .cluster = hosts(1), .gpus = 1});
  const Option& best = answer.options.front();
  EXPECT_FALSE(best.whole);
  // With a sum of gradients for every digit of the number of groups of micro-batches, of which there are 64.
  const double sums = 7;
  EXPECT_NEAR(best.memory.term("gradients"), 4 * best.parameters * sums,
              0.1 * 4 * best.parameters * sums);
  EXPECT_THAT(answer.notes, testing::Contains(HasSubstr("micro-batches, which repeat")));
  EXPECT_THAT(answer.notes, testing::Contains(HasSubstr("precision.numerics=canonical keeps up")));
  EXPECT_LT(answer.effort.seconds, 10);
  const Answer small = search({.job = gpt(4, 1024, 16), .cluster = hosts(1)}, {.explain = false});
  EXPECT_TRUE(small.options.front().whole);
}

TEST(Search, TakesContextsOfOneToken) {
  config::Job job = gpt(4, 1024, 96);
  job.model.seq_len = 1;
  EXPECT_EQ(ask(job, hosts(2)).options.front().layout.cp, 1);
}

TEST(Search, OffloadsOnlyWhereNothingElseFits) {
  const config::Job job = gpt(32, 4096, 8);
  EXPECT_EQ(ask(job, hosts(2, 40)).options.front().layout.away, Away::kNothing);
  const Option small = ask(job, hosts(1, 24), 4).options.front();
  EXPECT_GE(small.layout.away, Away::kOptimizer);
  EXPECT_GT(small.host, 0);
}

TEST(Search, RefusesWhatCannotBe) {
  const config::Job job = gpt(8, 2048, 64);
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(job, hosts(2), 9); }),
              HasSubstr("2 hosts of 4 = 8"));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(job, hosts(2), -1); }), HasSubstr("-1 GPUs"));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(gpt(2, 512, 64), hosts(2), 7); }),
              HasSubstr("no layout of 7 GPUs"));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(job, hosts(2), 8, {"optim.lr"}); }),
              HasSubstr("optim.lr is not chosen by a plan"));
  config::Job three = job;
  three.parallel.tp = 3;
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(three, hosts(2), 8, {"parallel.tp"}); }),
              HasSubstr("tp=3"));
  const std::string none =
      error_of(ErrorKind::kOutOfMemory, [&] { ask(gpt(64, 8192, 8), hosts(1, 8)); });
  EXPECT_THAT(none, HasSubstr("the smallest need is"));
  EXPECT_THAT(none, testing::ContainsRegex(
                        "[0-9]+ GPUs are enough, on [0-9]+ hosts, of which the cluster has 1"));
}

// What keeps a layout from being is said, and not taken for a lack of memory.
TEST(Search, SaysWhatIsMissing) {
  config::Job job = gpt(8, 2048, 64);
  job.offload.optimizer = Tier::kHost;
  Cluster cluster = hosts(2);
  cluster.host_rate = 0;
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(job, cluster, 8, {"offload.optimizer"}); }),
              HasSubstr("names no host_rate"));
  job.offload.optimizer = Tier::kNvme;
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { ask(job, cluster, 8, {"offload.optimizer"}); }),
              HasSubstr("names no disk_rate"));
  // Of layouts that fit and still cannot be, the reason.
  job = gpt(8, 2048, 64);
  job.recompute.policy = config::RecomputePolicy::kFull;
  job.recompute.nodes = "blok.*";
  EXPECT_THAT(error_of(ErrorKind::kUsage,
                       [&] {
                         ask(job, hosts(2), 8, {"recompute.policy", "recompute.nodes"});
                       }),
              HasSubstr("recompute.nodes=blok.*"));
}

// A host without memory for it takes nothing of its GPUs.
TEST(Search, OffloadsToHostsThatHaveRoom) {
  const config::Job job = gpt(32, 4096, 8);
  Cluster cluster = hosts(1, 24);
  cluster.host_memory = 0;
  error_of(ErrorKind::kOutOfMemory, [&] { ask(job, cluster, 4); });
  config::Job kept = job;
  kept.offload.optimizer = Tier::kHost;
  const auto asked = [&] { ask(kept, cluster, 4, {"offload.optimizer"}); };
  EXPECT_THAT(error_of(ErrorKind::kOutOfMemory, asked), HasSubstr("more host_memory"));
}

// What needs more than the share that runs can use is not chosen.
TEST(Search, LeavesTheAllocatorItsShare) {
  const config::Job job = gpt(16, 2048, 64);
  const Answer roomy = ask(job, hosts(2));
  const double most = needed(roomy.question, roomy.options.front());
  Cluster tight = hosts(2);
  tight.gpu.memory = static_cast<std::int64_t>(most / 0.98);
  const Answer answer = ask(job, tight);
  for (const Option& option : answer.options)
    EXPECT_LE(needed(answer.question, option), 0.97 * static_cast<double>(tight.gpu.memory));
}

// Every choice has its sentence, and every figure in it comes from a price: a layout that is not chosen is not better.
TEST(Reasons, SayWhatNeighboursCost) {
  const Answer answer = search({.job = gpt(32, 4096, 64), .cluster = hosts(4, 24)});
  std::string all;
  for (const Reason& reason : answer.reasons) all += reason.text + "\n";
  EXPECT_THAT(all, ::testing::AllOf(HasSubstr("GiB of usable 23.3"), HasSubstr("% longer")));
  for (const Choice choice : {Choice::kTp, Choice::kPp, Choice::kMicroBatch, Choice::kRecomputed})
    EXPECT_TRUE(std::ranges::any_of(answer.reasons, [&](const Reason& reason) {
      return reason.choice == choice;
    })) << name(choice);
  EXPECT_EQ(answer.changes.size(), 4u);
}

// A run that is shorter than checkpoints are apart has one, and its goodput is that of its offers.
TEST(Spending, OfAShortRun) {
  const Answer answer = ask(gpt(8, 2048, 64), hosts(2));
  const Option& best = answer.options.front();
  const Spending run = spending(answer.question, best, 1e8);
  EXPECT_DOUBLE_EQ(run.goodput.interval_s,
                   std::max(3600 * run.useful_hours, run.checkpoint.write_s));
  EXPECT_DOUBLE_EQ(run.goodput.useful, run.on_demand->goodput.useful);
}

// Spot hosts that come back late cost more; with a deadline only a part of the run is on them.
TEST(Spending, OfSpotHosts) {
  Cluster cluster = hosts(2);
  cluster.prices[0].preemptions_per_hour = 0.5;
  const auto spend = [&](double deadline_hours) {
    const Answer answer = ask(gpt(8, 2048, 64), cluster);
    return spending(answer.question, answer.options.front(), 1e12, deadline_hours);
  };
  const Spending now = spend(0);
  cluster.replace_s = 1800;
  const Spending late = spend(0);
  EXPECT_GT(late.spot->hours, 1.2 * now.spot->hours);
  EXPECT_DOUBLE_EQ(late.on_demand->hours, now.on_demand->hours);
  EXPECT_FALSE(late.in_time.has_value());
  const double between = (late.spot->hours + late.on_demand->hours) / 2;
  const Spending mixed = spend(between);
  ASSERT_EQ(mixed.in_time->parts.size(), 2u);
  EXPECT_NEAR(mixed.in_time->hours, between, 1e-6 * between);
  EXPECT_LT(mixed.in_time->dollars, dollars(late.on_demand->bill));
  EXPECT_GT(mixed.in_time->dollars, dollars(late.spot->bill));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { spend(1); }), HasSubstr("needs a later deadline"));
}

TEST(Reasons, SayWhatIsKept) {
  config::Job job = gpt(8, 2048, 64);
  job.offload.optimizer = Tier::kHost;
  job.recompute.policy = config::RecomputePolicy::kFull;
  job.recompute.nodes = "block.[0-1]";
  const Answer answer =
      search({.job = job,
              .cluster = hosts(2),
              .kept = {"offload.optimizer", "recompute.policy", "recompute.nodes"}});
  for (const Choice choice : {Choice::kAway, Choice::kRecomputed}) {
    const auto reason = std::ranges::find(answer.reasons, choice, &Reason::choice);
    ASSERT_NE(reason, answer.reasons.end());
    EXPECT_THAT(reason->text, HasSubstr("kept, as the job has it"));
  }
}

TEST(AnswerText, IsUnderReview) {
  const Answer answer = search({.job = gpt(16, 2048, 64), .cluster = hosts(2, 24)}, {.options = 3});
  const std::string text =
      answer_text(answer, spending(answer.question, answer.options.front(), 1e10));
  const Path path = Path(TRIREME_SOURCE_DIR) / "tests" / "golden" / "plan_two_hosts.txt";
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) write_file_synced(path, text);
  EXPECT_EQ(text, read_file(path));
}

}  // namespace
}  // namespace trireme::planner::search_test
