#include "trireme/checkpoint/on_rank_zero.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>

#include "trireme/base/error.h"

namespace trireme::checkpoint {
namespace {

// What an answer begins with.
constexpr char kDone = '+', kFailed = '-';

std::future<std::string> start(const std::function<std::string()>& body) {
  return std::async(std::launch::async, [&]() -> std::string {
    try {
      return kDone + body();
    } catch (const std::exception& e) {
      return std::string(1, kFailed) + e.what();
    }
  });
}

// Until `enough` of what the ranks have answered so far.
template <typename Enough>
std::vector<std::string> answers(comm::World& world, std::future<std::string> pending,
                                 const Enough& enough) {
  std::string mine;
  for (;;) {
    if (mine.empty() && pending.valid() &&
        pending.wait_for(std::chrono::seconds(1)) == std::future_status::ready)
      mine = pending.get();
    std::vector<std::string> all = world.exchange(mine);
    if (enough(all)) return all;
  }
}

}  // namespace

std::string on_rank_zero(comm::World& world, const std::function<std::string()>& body) {
  std::future<std::string> pending;
  if (world.rank() == 0) pending = start(body);
  const std::string answer =
      answers(world, std::move(pending), [](const auto& all) { return !all[0].empty(); })[0];
  if (answer[0] == kFailed) fail(ErrorKind::kData, "{}", answer.substr(1));
  return answer.substr(1);
}

std::vector<std::string> on_every_rank(comm::World& world,
                                       const std::function<std::string()>& body) {
  std::vector<std::string> all = answers(world, start(body), [](const auto& texts) {
    return std::ranges::none_of(texts, &std::string::empty);
  });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == kFailed) fail(ErrorKind::kData, "rank {}: {}", rank, all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

}  // namespace trireme::checkpoint
