// Your own torch::nn::Module under data parallelism, as it is. It learns to tell two spirals apart.
#include <ATen/ops/cross_entropy_loss.h>
#include <torch/nn/modules/linear.h>

#include <mutex>

#include "trireme/comm/local/local_world.h"
#include "trireme/exec/module_block.h"
#include "trireme/exec/session.h"
#include "trireme/optim/adamw.h"
#include "trireme/plan/compile/microbatch.h"
using namespace trireme;

struct Residual : torch::nn::Module {  // yours: knows nothing of ranks
  at::Tensor forward(const at::Tensor& x) { return x + down(up(x).tanh()); }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(32, 64));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(64, 32));
};

exec::Model classifier() {
  static std::mutex one_at_a_time;  // ranks are threads, torch::nn draws from one generator
  const std::lock_guard lock(one_at_a_time);
  at::manual_seed(1);
  torch::nn::Linear embed(2, 32), head(32, 2);
  const auto layer = std::make_shared<Residual>();
  exec::ModuleModel model("spirals");
  for (const char* name : {"points", "arms"}) model.input(name);
  model.add("embed", embed.ptr(), {"points"}, [=](auto& in) mutable { return embed(in[0]); });
  model.add("layer", layer, {"embed"}, [=](auto& in) { return layer->forward(in[0]); });
  model.add("head", head.ptr(), {"layer"}, [=](auto& in) mutable { return head(in[0]); });
  model.loss("loss", {"head", "arms"},
             [](auto& in) { return at::cross_entropy_loss(in[0], in[1], {}, at::Reduction::Sum); });
  return std::move(model).build();
}

std::vector<at::Tensor> batch(int step, std::int64_t micro_batch) {  // 32 points and their arms
  auto key = exec::BlockContext{.step = step, .micro_batch = micro_batch}.generator(0);
  const at::Tensor arm = at::empty({32}, at::kLong).random_(0, 2, key);
  const at::Tensor r = at::empty({32}, at::kFloat).uniform_(0.1, 1, key), phi = 6 * r + M_PI * arm;
  return {at::stack({r * phi.cos(), r * phi.sin()}, 1), arm};
}

int main(int argc, char** argv) {  // ZeRO-3 over 2 ranks; any other choice prints the same digits
  const int ranks = argc > 1 ? atoi(argv[1]) : 2, zero = argc > 2 ? atoi(argv[2]) : 3;
  const mesh::Mesh mesh({.dp_shard = ranks});
  const plan::Recipe recipe{.zero = zero, .micro_batches = 8 / ranks};
  comm::run_local_ranks(ranks, 60, [&](comm::World& world) {
    optim::AdamW adamw({.weight_decay = 0.01});
    exec::Session session(classifier(), {.mesh = mesh, .recipe = recipe}, world, adamw);
    for (int t = 1; t <= 150; ++t) {
      exec::StepArgs args{.step = t, .loss_scale = 1. / 256, .update = {.lr = 0.01, .step = t}};
      args.load = [&](int mb) {
        return batch(t, plan::micro_batch_id(mesh, recipe, world.rank(), mb));
      };
      const double loss = session.step(args).loss;
      if (world.rank() == 0 && t % 50 == 0) fmt::print("step {:3}  loss {}\n", t, loss);
    }
  });
}
