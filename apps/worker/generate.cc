// trireme-worker generate: loads a checkpoint on one rank and writes one token after the other.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "interrupts.h"
#include "subcommands.h"
#include "trireme/arch/layout.h"
#include "trireme/base/hash.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve.h"
#include "trireme/exec/session.h"
#include "trireme/formats/tokenizer.h"
#include "trireme/models/blocks.h"
#include "trireme/models/build.h"
#include "trireme/optim/adamw.h"

namespace trireme::app {
namespace {

struct Sampling {
  double temperature = 1;
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
};

// The checkpoint's job on one rank, one sample at a time.
config::Job alone(const std::string& yaml, const std::string& what) {
  config::Job job = config::parse_job(yaml, what);
  job.parallel = {};
  job.run.global_batch = job.run.micro_batch = 1;
  return config::resolve(job, 1, {.vocab = job.model.vocab});
}

// Logits of the token after `ids`, which fit the model's context.
at::Tensor next_logits(const exec::Model& model, const std::vector<std::int64_t>& ids) {
  const exec::BlockContext context{.training = false};
  const auto length = static_cast<std::int64_t>(ids.size());
  at::Tensor x = at::tensor(ids, at::kLong).view({1, length});
  for (std::size_t k = 0; k + 1 < model.blocks.size(); ++k)
    x = model.blocks[k]->forward({x}, context)[0];
  const auto* head = dynamic_cast<const models::LanguageHead*>(model.blocks.back().get());
  TRIREME_CHECK(head != nullptr, "the last block of {} has no logits", model.spec.program.name);
  return head->logits(x.narrow(1, length - 1, 1)).flatten().to(at::kDouble);
}

// Draws the index-th token; the same seed gives the same text.
std::int64_t draw(at::Tensor logits, const Sampling& sampling, std::uint64_t index) {
  if (sampling.temperature == 0) return logits.argmax().item<std::int64_t>();
  if (sampling.top_k > 0 && sampling.top_k < logits.numel()) {
    const double least = std::get<0>(logits.topk(sampling.top_k)).min().item<double>();
    logits = logits.masked_fill(logits < least, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor sums = at::softmax(logits / sampling.temperature, 0).cumsum(0);
  const double u = static_cast<double>(mix(sampling.seed, index) >> 11) * 0x1p-53;
  const auto* first = sums.data_ptr<double>();
  const std::int64_t last = sums.numel() - 1;
  return std::min(last, std::upper_bound(first, first + last, u * first[last]) - first);
}

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

int generate(const Arguments& arguments) {
  const Interrupts interrupts;
  const Path checkpoint = arguments.text("checkpoint"), vocabulary = arguments.text("vocabulary");
  const config::Job job = alone(formats::read_manifest(checkpoint).job, checkpoint.string());
  const auto tokenizer =
      formats::Tokenizer::from_description(read_file(vocabulary), vocabulary.string());

  comm::LocalWorld local(1, job.parallel.comm_timeout_s);
  const std::unique_ptr<comm::World> world = local.rank(0);
  optim::AdamW updater({.betas = job.optim.betas, .eps = job.optim.eps});
  exec::Session session(models::build(job),
                        {.mesh = arch::mesh_of(job), .recipe = arch::recipe_of(job)}, *world,
                        updater);
  ckpt::load(checkpoint, session.units(), session.model().spec.units);
  session.units().refresh();

  const Sampling sampling{.temperature = arguments.number<double>("temperature"),
                          .top_k = arguments.number<std::int64_t>("top-k"),
                          .seed = arguments.number<std::uint64_t>("seed")};
  const std::string prompt = arguments.text("prompt");
  const std::vector<std::int32_t> start = tokenizer.encode(prompt);
  std::vector<std::int64_t> ids(start.begin(), start.end());
  const auto context = static_cast<std::size_t>(job.model.seq_len);
  const auto tokens = arguments.number<std::uint64_t>("tokens");
  const at::NoGradGuard no_gradients;
  write(prompt);
  for (std::uint64_t index = 0; index < tokens && interrupts.first() == 0; ++index) {
    if (ids.size() > context) ids.erase(ids.begin(), ids.end() - job.model.seq_len);
    // The model may know more ids than the vocabulary has.
    const at::Tensor logits =
        next_logits(session.model(), ids).narrow(0, 0, tokenizer.vocab_size());
    ids.push_back(draw(logits, sampling, index));
    const auto id = static_cast<std::int32_t>(ids.back());
    write(tokenizer.decode(std::span(&id, 1)));
  }
  write("\n");
  return interrupts.first() == 0 ? 0 : 128 + interrupts.first();
}

}  // namespace trireme::app
