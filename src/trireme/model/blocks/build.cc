#include "trireme/model/blocks/build.h"

#include <ATen/Context.h>
#include <torch/version.h>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/exec/typed_block.h"
#include "trireme/model/blocks/families.h"
#include "trireme/model/blocks/preference/preference.h"
#include "trireme/model/blocks/spread.h"
#include "trireme/model/families/families.h"

namespace trireme::blocks {
namespace {

std::vector<bool> typed(const plan::Program& program, const std::vector<plan::ValueId>& ids) {
  std::vector<bool> marks;
  for (const plan::ValueId id : ids) marks.push_back(program.values[id].type.has_value());
  return marks;
}

// Nodes whose units have a type of their own compute in it.
void type_nodes(DType compute, exec::Model& model) {
  const plan::Program& program = model.spec.program;
  for (std::size_t node = 0; node < model.blocks.size(); ++node) {
    if (program.nodes[node].units.empty()) continue;
    const auto unit = static_cast<std::size_t>(program.nodes[node].units.front());
    if (const std::optional<DType> type = program.units[unit].type)
      model.blocks[node] = std::make_unique<exec::TypedBlock>(
          std::move(model.blocks[node]), comm::scalar_type(*type), comm::scalar_type(compute),
          typed(program, program.nodes[node].reads), typed(program, program.nodes[node].writes));
  }
}

// The model of the job's family.
OwnModel model_of(const config::Job& job) {
  const FamilyBlocks* family = config::find_entry(family_blocks(), job.model.family);
  if (family == nullptr)
    fail(ErrorKind::kUsage,
         "model.family={}: this build, as ./dev quickstart makes it, trains the families {}; ./dev "
         "build adds the others (CMake: TRIREME_FAMILIES=all)",
         config::name(job.model.family),
         config::names_where([](const config::FamilyInfo& one) { return is_built(one.family); }));
  return {model::family_model(job.model.family).describe, family->make};
}

Blocks blocks_of(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks,
                 MakeBlocks make) {
  if (job.data.source != config::DataSource::kPreferences) return make(job, spec, ranks);
  model::ModelSpec decoder = spec;  // the loss is no family's
  decoder.program.nodes.pop_back();
  Blocks blocks = make(job, decoder, ranks);
  blocks.push_back(std::make_unique<PreferenceLoss>(job.preference, ranks));
  return blocks;
}

exec::Model build_across(const config::Job& job, const Ranks& across, const OwnModel& own) {
  const DType compute = job.precision.compute;
  const config::FamilyInfo& family = config::info(job);
  if (compute != DType::kF64 && compute != DType::kF32 && compute != DType::kBF16 &&
      compute != DType::kF16)
    fail(ErrorKind::kUsage, "precision.compute={}: models run in fp64, fp32, bf16 or fp16",
         name(compute));
  if (compute == DType::kF16 && job.run.device == config::Device::kCpu && !family.fp16_on_cpu)
    fail(ErrorKind::kUsage,
         "precision.compute=fp16: LibTorch computes some layers of family {} in fp16 only on GPUs; "
         "set precision.compute=bf16 or fp32, or run.device=cuda",
         family.name);
  exec::Model model{.spec = model::describe(job, own.describe), .blocks = {}};
  model.blocks = blocks_of(job, model.spec, across, own.make);
  type_nodes(compute, model);
  if (!family.zigzag) spread_rows(across, model);
  return model;
}

}  // namespace

at::Device device_of(const config::Job& job) {
  if (job.run.device == config::Device::kCpu) return at::kCPU;
  if (!at::hasCUDA())
    fail(ErrorKind::kUsage,
         "run.device=cuda, but LibTorch {} finds no CUDA device here; choose run.device=cpu, or "
         "build Trireme with a LibTorch for CUDA and start it where a GPU is (docs/gpu.md)",
         TORCH_VERSION);
  return at::kCUDA;
}

exec::Model build(const config::Job& job) {
  TRIREME_CHECK(job.parallel.tp == 1 && job.parallel.cp == 1,
                "a model over tp {} and cp {} is built with its world", job.parallel.tp,
                job.parallel.cp);
  TRIREME_CHECK(!config::couples_batch(job) || config::dp(job) == 1,
                "a model that couples its batch over dp {} is built with its world",
                config::dp(job));
  return build_across(job, std::make_shared<Across>(job.model), model_of(job));
}

exec::Model build(const config::Job& job, comm::World& world) {
  return build(job, world, model_of(job));
}

exec::Model build(const config::Job& job, comm::World& world, const OwnModel& own) {
  return build_across(job, std::make_shared<Across>(job, world, device_of(job)), own);
}

}  // namespace trireme::blocks
