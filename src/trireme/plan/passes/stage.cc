#include "trireme/plan/passes/stage.h"

namespace trireme::plan {

Insertion::Insertion(const List& list) : list_(list) {
  before_.resize(list.size() + 1);
  after_.resize(list.size());
}

List Insertion::build() const {
  List result;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    result.insert(result.end(), before_[i].begin(), before_[i].end());
    result.push_back(list_[i]);
    result.insert(result.end(), after_[i].begin(), after_[i].end());
  }
  result.insert(result.end(), before_.back().begin(), before_.back().end());
  return result;
}

}  // namespace trireme::plan
