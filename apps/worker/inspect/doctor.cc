// trireme-worker doctor: what needs LibTorch, proven by running it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/version.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "apps/checks.h"
#include "apps/worker/subcommands.h"
#include "trireme/base/ports.h"
#include "trireme/comm/gloo/gloo_world.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/text/dataset.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/train/trainer.h"

namespace trireme::app {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::string matrix_rate(at::ScalarType type) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kRounds = 5;
  const at::Tensor a = at::randn({kSize, kSize}).to(type), b = at::randn({kSize, kSize}).to(type);
  at::Tensor c = ops::product(a, b);
  const Stopwatch watch;
  for (int round = 0; round < kRounds; ++round) c = ops::product(a, b);
  const double rate = kRounds * 2 * std::pow(static_cast<double>(kSize), 3) / watch.seconds();
  TRIREME_CHECK(at::isfinite(c).all().item<bool>(), "the product has values that are not finite");
  return fmt::format("{:.0f} GFLOP/s, square of {}", rate / 1e9, kSize);
}

// Canonical sums rest on this: a micro-batch's product has the same bits every time. Some BLAS also give each row the
// same bits for any number of rows; then not even run.micro_batch changes the sums.
std::string repeated_product(at::ScalarType type) {
  bool splits = true;
  for (const std::int64_t rows : {64, 256}) {
    const at::Tensor a = at::randn({rows, 192}).to(type), b = at::randn({192, 768}).to(type);
    const at::Tensor whole = ops::product(a, b);
    TRIREME_CHECK(same_bits(whole, ops::product(a.clone(), b.clone())),
                  "the same product of {} rows differs from time to time: canonical runs are not "
                  "bitwise equal here",
                  rows);
    const at::Tensor parts = at::cat(
        {ops::product(a.slice(0, 0, rows / 2), b), ops::product(a.slice(0, rows / 2, rows), b)});
    splits = splits && same_bits(whole, parts);
  }
  return splits ? "the same bits every time, and rows may be split freely"
                : "the same bits every time, for as many rows: another micro_batch is another run";
}

// Backward from an output's place in the graph, after the output is gone, with a hand-made
// gradient.
std::string gradient_edge() {
  const at::Tensor x = at::randn({8, 8}).requires_grad_(true), seed = at::randn({8, 8});
  const at::Tensor expected = 2 * x.detach() * seed;
  at::Tensor y = x * x;
  const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(y);
  y.reset();
  torch::autograd::Engine::get_default_engine().execute({edge}, {seed}, false, false, true);
  TRIREME_CHECK(at::allclose(x.grad(), expected), "the gradient is wrong");
  return "backward runs from a gradient edge whose output is gone";
}

at::Tensor contribution(int rank) {
  return at::arange(1, 1001, at::kFloat).reciprocal() * (rank + 1);
}

// A sum, a reduce-scatter and an all-gather over two ranks, as one tensor.
at::Tensor collectives(comm::World& world) {
  const std::unique_ptr<comm::Group> group = world.make_group("doctor", {0, 1});
  at::Tensor sum = contribution(world.rank()), part = at::empty({500}), whole = at::empty({1000});
  group->reduce_scatter(comm::buffer(sum), comm::buffer(part)).wait();
  group->all_gather(comm::buffer(part), comm::buffer(whole)).wait();
  group->all_reduce(comm::buffer(sum)).wait();
  return at::cat({sum, whole});
}

void check_collectives(const at::Tensor& got) {
  const at::Tensor sum = contribution(0) + contribution(1);
  TRIREME_CHECK(same_bits(got, at::cat({sum, sum})), "the sums of two ranks are wrong");
}

constexpr double kDoctorTimeout = 20;

std::string local_collectives() {
  comm::run_local_ranks(2, kDoctorTimeout,
                        [](comm::World& world) { check_collectives(collectives(world)); });
  return "two ranks as threads: reduce-scatter, all-gather, all-reduce give the expected bits";
}

std::string gloo_collectives() {
  const int port = free_port();
  std::exception_ptr error;
  std::mutex mutex;
  const auto rank = [&](int k) {
    try {
      const auto world = comm::connect_gloo({.rank = k,
                                             .size = 2,
                                             .host = "127.0.0.1",
                                             .port = port,
                                             .run_id = "doctor",
                                             .interface = {},
                                             .timeout_s = kDoctorTimeout,
                                             .connect_timeout_s = kDoctorTimeout});
      check_collectives(collectives(*world));
    } catch (...) {
      const std::scoped_lock lock(mutex);
      error = std::current_exception();
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  if (error) std::rethrow_exception(error);
  return "two ranks over TCP on loopback: the same bits";
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-doctor-").string() +
                          std::string(6, 'X');  // which mkdtemp replaces
    TRIREME_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary directory at {}", pattern);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  Path operator/(const std::string& name) const { return path_ / name; }

 private:
  Path path_;
};

struct KeepLoss final : train::Callback {
  explicit KeepLoss(double& last) : last_loss(last) {}
  void on_step(const train::StepMetrics& metrics) override { last_loss = metrics.loss; }
  double& last_loss;
};

double last_loss(const train::TrainSetup& setup, int ranks) {
  double loss = 0;
  comm::run_local_ranks(ranks, kDoctorTimeout, [&](comm::World& world) {
    train::Callbacks callbacks;
    if (world.rank() == 0) callbacks.push_back(std::make_unique<KeepLoss>(loss));
    train::train(setup, world, callbacks);
  });
  return loss;
}

// Two steps on one rank; one step, a checkpoint, and the second step on two ranks with everything
// sharded.
std::string training() {
  const TemporaryDirectory scratch;
  std::string text;
  for (int k = 0; text.size() < 8000; ++k) text += fmt::format("int value_{} = {};\n", k, k * k);
  write_file_synced(scratch / "text", text);
  const text::Dataset dataset =
      text::prepare_dataset({.sources = text::collect_sources({scratch / "text"}),
                             .out = scratch / "data",
                             .validation = {text::ValidationRule::By::kTail, 0.1}});
  config::Job job;
  job.run.steps = 2;
  job.checkpoint.every = 1;
  const auto setup = [&](int ranks, int zero, const char* out, const Path& resume) {
    job.parallel.zero = zero;
    return train::TrainSetup{
        .job = config::resolve(job, ranks, {.vocab = dataset.tokenizer.vocab_size()}),
        .dataset = dataset.directory,
        .out = scratch / out,
        .resume = resume,
        .build_id = "doctor"};
  };
  const double alone = last_loss(setup(1, 0, "one", {}), 1);
  const Path middle = scratch / "one" / "checkpoints" / "step-1";
  formats::verify_checkpoint(middle);
  const double together = last_loss(setup(2, 3, "two", middle), 2);
  TRIREME_CHECK(std::isfinite(alone) && alone == together,
                "loss {:.17g} on one rank, {:.17g} on two", alone, together);
  return fmt::format(
      "1 rank, and from its checkpoint 2 ranks with ZeRO-3: the same loss {:.6f}, bit for bit",
      alone);
}

}  // namespace

int doctor(const Arguments& arguments) {
  Checks checks;
  checks.run("LibTorch",
             [] { return fmt::format("{}, {} threads", TORCH_VERSION, at::get_num_threads()); });
  checks.run("matrix product fp32", [] { return matrix_rate(at::kFloat); });
  checks.run("matrix product bf16", [] { return matrix_rate(at::kBFloat16); });
  checks.run("same product fp32", [] { return repeated_product(at::kFloat); });
  checks.run("same product bf16", [] { return repeated_product(at::kBFloat16); });
  checks.run("gradient edge", gradient_edge);
  checks.run("collectives, threads", local_collectives);
  checks.run("collectives, Gloo", gloo_collectives);
  checks.run("train and resume", training);
  if (arguments.has("json")) write_file_synced(arguments.text("json"), checks.json().dump());
  return checks.all_ok() ? 0 : 1;
}

}  // namespace trireme::app
