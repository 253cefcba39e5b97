#include "trireme/exec/module_block.h"

#include <utility>

#include "trireme/base/error.h"

namespace trireme::exec {
namespace {

class ModuleBlock : public Block {
 public:
  ModuleBlock(std::shared_ptr<torch::nn::Module> module, ModuleForward forward)
      : module_(std::move(module)), forward_(std::move(forward)) {
    if (module_ == nullptr) return;
    for (const at::Tensor& param : module_->parameters())
      initial_.push_back(param.detach().clone());
  }

  void bind(std::vector<at::Tensor> params) override {
    if (module_ == nullptr) return;
    std::vector<at::Tensor> own = module_->parameters();
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].set_data(params[i].detach());
      own[i].set_requires_grad(params[i].requires_grad());
      own[i].mutable_grad() = params[i].grad();
    }
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext& context) override {
    if (module_ != nullptr) module_->train(context.training);
    return {forward_(inputs)};
  }

  at::Tensor initial_value(std::size_t index) const override { return initial_[index]; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  ModuleForward forward_;
  std::vector<at::Tensor> initial_;
};

// Whether a module's parameters receive gradients. A unit does so as a whole.
bool is_trainable(const std::string& name, const torch::nn::Module& module) {
  std::string trained, frozen;
  for (const auto& param : module.named_parameters())
    (param.value().requires_grad() ? trained : frozen) = param.key();
  if (!trained.empty() && !frozen.empty())
    fail(ErrorKind::kUsage,
         "module {} trains {} but not {}. A module is one unit, which trains or is frozen as a "
         "whole. Set the same requires_grad on all its parameters, or add its parts as modules of "
         "their own",
         name, trained, frozen);
  return frozen.empty();
}

}  // namespace

void ModuleModel::input(const std::string& name) {
  model_.spec.program.values.push_back({.name = name, .bytes = 0, .differentiable = false});
}

plan::ValueId ModuleModel::find(const std::string& name) const {
  const auto& values = model_.spec.program.values;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name) return static_cast<plan::ValueId>(i);
  fail(ErrorKind::kUsage, "no value \"{}\": name it with input() or add() before it is read", name);
}

void ModuleModel::add(const std::string& name, std::shared_ptr<torch::nn::Module> module,
                      const std::vector<std::string>& reads, ModuleForward forward,
                      std::int64_t bytes) {
  plan::Program& program = model_.spec.program;
  plan::Node node{.name = name};
  for (const std::string& value : reads) node.reads.push_back(find(value));
  node.writes = {static_cast<plan::ValueId>(program.values.size())};
  std::vector<model::ParamRef> refs;
  if (module != nullptr) {
    if (!module->buffers().empty())
      fail(ErrorKind::kUsage,
           "module {} has buffers, which no unit holds; use layers without running statistics",
           name);
    model::UnitSpec unit{.name = name};
    for (const auto& param : module->named_parameters())
      unit.params.push_back({.name = name + "." + param.key(),
                             .shape = param.value().sizes().vec(),
                             .decay = param.value().dim() > 1 ? 1.0 : 0.0});
    if (!unit.params.empty()) {
      const auto id = static_cast<plan::UnitId>(program.units.size());
      program.units.push_back({.name = name,
                               .numel = unit.numel(),
                               .trainable = is_trainable(name, *module),
                               .matrices = model::matrices_of(unit)});
      for (std::size_t i = 0; i < unit.params.size(); ++i)
        refs.push_back({.unit = id, .param = static_cast<int>(i)});
      node.units = {id};
      model_.spec.units.push_back(std::move(unit));
    }
  }
  program.values.push_back({.name = name, .bytes = bytes, .differentiable = true});
  program.nodes.push_back(std::move(node));
  model_.spec.node_params.push_back(std::move(refs));
  model_.blocks.push_back(std::make_unique<ModuleBlock>(std::move(module), std::move(forward)));
}

void ModuleModel::loss(const std::string& name, const std::vector<std::string>& reads,
                       ModuleForward forward) {
  add(name, nullptr, reads, std::move(forward));
  model_.spec.program.nodes.back().loss = true;
}

Model ModuleModel::build() && { return std::move(model_); }

}  // namespace trireme::exec
