#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/config/families.h"
#include "trireme/config/rules/rule_lists.h"

namespace trireme::config {

std::vector<Rule> family_rules() {
  std::vector<Rule> list;
  for (const FamilyInfo& one : families())
    for (Rule rule : one.rules()) {
      rule.family = one.family;
      list.push_back(std::move(rule));
    }
  return list;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> list;
    for (auto* topic :
         {key_rules, family_rules, model_rules, layout_rules, precision_rules, optim_rules,
          training_rules, batch_rules, network_rules, codec_rules, island_rules, run_rules})
      std::ranges::move(topic(), std::back_inserter(list));
    return list;
  }();
  return kRules;
}

void run(const Rule& rule, Job& job, const Given& given) {
  if (rule.family && *rule.family != job.model.family) return;
  if (rule.fill) rule.fill(job, given);
  if (rule.check && (!rule.when || rule.when(job))) rule.check(job);
}

}  // namespace trireme::config
