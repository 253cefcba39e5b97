// trireme-worker generate: loads a checkpoint on one rank and writes one token after the other.
#include "trireme/models/generate.h"

#include <cstdio>

#include "interrupts.h"
#include "subcommands.h"
#include "trireme/arch/layout.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve.h"
#include "trireme/exec/session.h"
#include "trireme/formats/tokenizer.h"
#include "trireme/models/build.h"
#include "trireme/optim/adamw.h"

namespace trireme::app {
namespace {

// The checkpoint's job on one rank, one sample at a time. What training did for its memory is not needed, and may not
// be possible so.
config::Job alone(const std::string& yaml, const std::string& what) {
  config::Job job = config::parse_job(yaml, what);
  job.parallel = {};
  job.recompute = {};
  job.offload = {};
  job.run.global_batch = job.run.micro_batch = 1;
  job.run.find_micro_batch = false;
  job.run.memory_limit = {};
  return config::resolve(job, 1, {.vocab = job.model.vocab});
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
  ckpt::load(checkpoint, session.units(), session.model().spec.units, job.model.weights);
  session.units().refresh();

  const std::string prompt = arguments.text("prompt");
  const std::vector<std::int32_t> start = tokenizer.encode(prompt);
  write(prompt);
  models::generate(session.model(),
                   {.prompt = {start.begin(), start.end()},
                    .max_tokens = arguments.number<std::int64_t>("tokens"),
                    .context = job.model.seq_len,
                    .sampling = {.temperature = arguments.number<double>("temperature"),
                                 .top_k = arguments.number<std::int64_t>("top-k"),
                                 .seed = arguments.number<std::uint64_t>("seed")},
                    .on_token = [&](std::int64_t token) {
                      const auto id = static_cast<std::int32_t>(token);
                      // The model may know more ids than the vocabulary has.
                      if (id < tokenizer.vocab_size()) write(tokenizer.decode(std::span(&id, 1)));
                      return interrupts.first() == 0;
                    }});
  write("\n");
  return interrupts.first() == 0 ? 0 : 128 + interrupts.first();
}

}  // namespace trireme::app
