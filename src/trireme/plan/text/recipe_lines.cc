#include "trireme/plan/text/recipe_lines.h"

#include <fmt/format.h>

#include <string_view>

#include "trireme/base/text.h"
#include "trireme/plan/compile/recompute.h"
#include "trireme/plan/offload.h"

namespace trireme::plan {
namespace {

std::string offload_line(const PlanSet& plan) {
  const Offload& offload = plan.recipe.offload;
  if (!offload.any()) return "";
  std::string text;
  const auto add = [&](std::string_view what, Tier tier) {
    if (tier == Tier::kNone) return;
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", what,
                        tier == Tier::kTp ? "shared over" : "on", name(tier));
  };
  const double share = Away(plan.program, plan.recipe).states_share();
  add(offload.ratio < 1
          ? fmt::format("{:.3g}% of the optimizer (ratio {})", 100 * share, offload.ratio)
          : "optimizer",
      offload.optimizer);
  add("parameters", offload.params);
  add("gradients", offload.grads);
  add("activations", offload.activations);
  return fmt::format("offload   {}, {} ahead\n", text, offload.prefetch);
}

std::string sums_name(const Recipe& recipe) {
  std::string text = recipe.canonical ? "canonical" : "fast";
  if (recipe.canonical && recipe.group > 1) text += fmt::format(" (group {})", recipe.group);
  if (recipe.algorithm == algorithm::Kind::kAuto) return text + " sums";
  return fmt::format("{} sums, {} between hosts", text, name(recipe.algorithm));
}

std::string outer_text(const OuterSteps& outer) {
  std::string text =
      fmt::format("{} merged every {}, lr {}, momentum {}", counted(outer.islands, "island"),
                  counted(outer.every, "step"), outer.lr, outer.momentum);
  if (outer.direction) text += ", layers by mean norm and direction";
  if (outer.fragments > 1) text += fmt::format(", in {} fragments", outer.fragments);
  if (outer.codec)
    text +=
        fmt::format(", as {} codes{}{}", codec::print(*outer.codec),
                    outer.residual ? fmt::format(" with {} residuals", name(*outer.residual)) : "",
                    outer.back ? ", back as " + codec::print(*outer.back) : "");
  if (outer.delay > 0)
    text +=
        fmt::format(", applied {} later with blend {}", counted(outer.delay, "step"), outer.blend);
  return text;
}

}  // namespace

std::string recipe_lines(const PlanSet& plan) {
  const Recipe& recipe = plan.recipe;
  const std::string recomputed = recomputation_text(plan.program);
  std::string types = fmt::format("{} compute, {} master, {} gradients", name(recipe.compute),
                                  name(recipe.master), name(recipe.grads));
  if (recipe.reduce) types += fmt::format(" ({} between ranks)", name(*recipe.reduce));
  if (recipe.coded)
    types += fmt::format(
        ", {} codes of {} sender{}{}{}", codec::print(recipe.coded->codec), recipe.coded->senders,
        recipe.coded->senders == 1 ? "" : "s",
        recipe.coded->residual
            ? fmt::format(
                  " with {}{} residuals",
                  recipe.coded->residuals > 0 ? fmt::format("{} ", recipe.coded->residuals) : "",
                  name(*recipe.coded->residual))
            : "",
        recipe.coded->back ? ", back as " + codec::print(*recipe.coded->back) : "");
  if (recipe.gather)
    types += fmt::format(
        ", parameters as {} codes{}", codec::print(recipe.gather->codec),
        recipe.gather->within > 0 ? fmt::format(" that {} ranks keep", recipe.gather->within) : "");
  if (recipe.int8_states) types += ", int8 optimizer states";
  if (recipe.outer) types += "\nouter     " + outer_text(*recipe.outer);
  return fmt::format(
      "ZeRO-{}, {} micro-batch{}, schedule {}{}, {}\ntypes     {}\n{}{}", recipe.zero,
      recipe.micro_batches, recipe.micro_batches == 1 ? "" : "es", name(recipe.schedule),
      recipe.zero == 3 ? fmt::format(", prefetch {}", recipe.prefetch) : "", sums_name(recipe),
      types, recomputed.empty() ? "" : "recompute " + recomputed + "\n", offload_line(plan));
}

}  // namespace trireme::plan
