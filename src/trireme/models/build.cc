#include "trireme/models/build.h"

#include "trireme/arch/language_model.h"
#include "trireme/base/error.h"
#include "trireme/models/gpt.h"
#include "trireme/models/llama.h"

namespace trireme::models {
namespace {

void add_gpt(const config::Job& job, exec::Model& out) {
  const config::Model& model = job.model;
  out.blocks.push_back(std::make_unique<GptEmbed>(model));
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    out.blocks.push_back(std::make_unique<GptBlock>(model));
  out.blocks.push_back(std::make_unique<GptHead>(job));
}

void add_llama(const config::Job& job, exec::Model& out) {
  const config::Model& model = job.model;
  const ops::RotaryTable rotary =
      ops::rotary_table(model.seq_len, model.hidden / model.heads, model.rope_theta,
                        job.precision.compute == DType::kF64 ? at::kDouble : at::kFloat);
  out.blocks.push_back(std::make_unique<LlamaEmbed>());
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    out.blocks.push_back(std::make_unique<LlamaBlock>(model, rotary));
  out.blocks.push_back(std::make_unique<LlamaHead>(job));
}

}  // namespace

exec::Model build(const config::Job& job) {
  const DType compute = job.precision.compute;
  if (compute != DType::kF64 && compute != DType::kF32 && compute != DType::kBF16)
    fail(ErrorKind::kUsage, "precision.compute={}: models run in fp64, fp32 or bf16",
         name(compute));
  exec::Model model{.spec = arch::describe(job), .blocks = {}};
  switch (job.model.family) {
    case config::Family::kGpt: add_gpt(job, model); break;
    case config::Family::kLlama: add_llama(job, model); break;
  }
  return model;
}

}  // namespace trireme::models
