#include "trireme/plan/text/outer_text.h"

#include <fmt/format.h>

#include <vector>

namespace trireme::plan {
namespace {

std::string fragment_list(const std::vector<int>& all) {
  std::string text;
  for (const int one : all) text += fmt::format("{}{}", text.empty() ? "" : ",", one);
  return text;
}

}  // namespace

std::string print_outer(const std::optional<OuterSteps>& outer) {
  if (!outer) return "";
  const OuterWork& work = outer->work;
  return fmt::format(
      " islands={} every={} fragments={} delay={} blend={} outer_lr={} "
      "outer_momentum={}{}{}{}{}{}{}{}",
      outer->islands, outer->every, outer->fragments, outer->delay, outer->blend, outer->lr,
      outer->momentum, outer->codec ? " outer_codec=" + codec::print(*outer->codec) : "",
      outer->back ? " outer_back=" + codec::print(*outer->back) : "",
      outer->residual ? fmt::format(" outer_residual={}", name(*outer->residual)) : "",
      outer->direction ? " direction" : "",
      work.applied.empty() ? "" : " applies=" + fragment_list(work.applied),
      work.sent.empty() ? "" : " sends=" + fragment_list(work.sent),
      work.at_once ? " at_once" : "");
}

std::optional<OuterSteps> parse_outer(Line& line) {
  const auto islands = line.optional("islands");
  if (!islands) return std::nullopt;
  OuterSteps outer{.islands = line.number<int>(*islands)};
  outer.every = line.number<std::int64_t>(line.required("every"));
  outer.fragments = line.number<int>(line.required("fragments"));
  outer.delay = line.number<int>(line.required("delay"));
  outer.blend = line.number<double>(line.required("blend"));
  outer.lr = line.number<double>(line.required("outer_lr"));
  outer.momentum = line.number<double>(line.required("outer_momentum"));
  if (const auto codec = line.optional("outer_codec")) outer.codec = codec::parse(*codec);
  if (const auto back = line.optional("outer_back")) outer.back = codec::parse(*back);
  if (const auto residual = line.optional("outer_residual"))
    outer.residual = line.one_of<DType>(*residual, 9);
  outer.direction = line.flag("direction");
  const auto fragments = [&](std::string_view key, std::vector<int>& into) {
    if (const auto list = line.optional(key))
      for (std::string_view one : split(*list, ',')) into.push_back(line.number<int>(one));
  };
  fragments("applies", outer.work.applied);
  fragments("sends", outer.work.sent);
  outer.work.at_once = line.flag("at_once");
  return outer;
}

}  // namespace trireme::plan
