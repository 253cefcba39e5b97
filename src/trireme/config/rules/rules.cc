#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/shared_rules.h"

namespace trireme::config {

std::vector<Rule> family_rules() {
  std::vector<Rule> list;
  for (const FamilyInfo& one : families()) {
    TRIREME_CHECK(one.rules != nullptr, "family {} has no rules", one.name);
    for (Rule rule : one.rules()) {
      rule.family = one.family;
      list.push_back(std::move(rule));
    }
  }
  return list;
}

std::vector<Rule> joined(std::initializer_list<std::vector<Rule>> lists) {
  std::vector<Rule> all;
  for (const std::vector<Rule>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<Rule> only_for(bool (*jobs)(const Job&), std::vector<Rule> list) {
  for (Rule& rule : list)
    rule.when = [jobs, when = rule.when](const Job& job) {
      return jobs(job) && (!when || when(job));
    };
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
  if (rule.when && !rule.when(job)) return;
  if (rule.check) rule.check(job);
  if (rule.fits) rule.fits(job, given);
}

}  // namespace trireme::config
