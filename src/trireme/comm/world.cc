#include "trireme/comm/world.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace trireme::comm {

World::World(int rank, int size) : rank_(rank), size_(size) {
  TRIREME_CHECK(size >= 1 && rank >= 0 && rank < size, "rank {} of a world of {}", rank, size);
  flight().identify(rank, size);
}

void World::record_in(std::shared_ptr<watch::Recorder> recorder) {
  common_->flight = std::move(recorder);
  flight().identify(rank_, size_);
}

int World::position_in(const std::string& name, const std::vector<int>& ranks) const {
  const auto self = std::find(ranks.begin(), ranks.end(), rank_);
  TRIREME_CHECK(self != ranks.end(), "rank {} makes group '{}' that it is not in", rank_, name);
  const std::set<int> distinct(ranks.begin(), ranks.end());
  TRIREME_CHECK(
      distinct.size() == ranks.size() && *distinct.begin() >= 0 && *distinct.rbegin() < size_,
      "group '{}' needs distinct ranks of 0..{}", name, size_ - 1);
  return static_cast<int>(self - ranks.begin());
}

std::string World::new_key(const std::string& name, const std::vector<int>& ranks) {
  std::string key = name;
  for (int rank : ranks) key += fmt::format(",{}", rank);
  return key + fmt::format("#{}", made_[key]++);
}

std::unique_ptr<Group> World::make_group(const std::string& name, const std::vector<int>& ranks,
                                         const algorithm::Choice& choice) {
  const int position = position_in(name, ranks);
  return open(name, new_key(name, ranks), ranks, position, choice);
}

std::unique_ptr<Group> World::make_host_group(const std::string& name,
                                              const std::vector<int>& ranks) {
  const int position = position_in(name, ranks);
  return open_host(name, new_key(name, ranks), ranks, position);
}

std::vector<std::string> World::exchange(const std::string& mine) {
  if (!exchange_) {
    std::vector<int> all(static_cast<std::size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    exchange_ = open_host("exchange", "exchange", all, rank_);
  }
  const auto own = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size_));
  exchange_->all_gather({&own, 1, DType::kI64}, {lengths.data(), size_, DType::kI64}).wait();
  std::string joined(static_cast<std::size_t>(total(lengths)), '\0');
  exchange_
      ->all_gather_v({mine.data(), own, DType::kU8}, {joined.data(), total(lengths), DType::kU8},
                     lengths)
      .wait();
  std::vector<std::string> texts;
  std::size_t begin = 0;
  for (std::int64_t length : lengths) {
    texts.push_back(joined.substr(begin, static_cast<std::size_t>(length)));
    begin += static_cast<std::size_t>(length);
  }
  return texts;
}

}  // namespace trireme::comm
