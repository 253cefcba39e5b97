#include "trireme/ckpt/on_rank_zero.h"

#include <chrono>
#include <exception>
#include <future>

#include "trireme/base/error.h"

namespace trireme::ckpt {
namespace {

// What an answer begins with.
constexpr char kDone = '+', kFailed = '-';

}  // namespace

std::string on_rank_zero(comm::World& world, const std::function<std::string()>& body) {
  std::future<std::string> pending;
  if (world.rank() == 0)
    pending = std::async(std::launch::async, [&]() -> std::string {
      try {
        return kDone + body();
      } catch (const std::exception& e) {
        return std::string(1, kFailed) + e.what();
      }
    });
  std::string answer;
  while (answer.empty()) {
    std::string mine;
    if (pending.valid() && pending.wait_for(std::chrono::seconds(1)) == std::future_status::ready)
      mine = pending.get();
    answer = world.exchange(mine)[0];
  }
  if (answer[0] == kFailed) fail(ErrorKind::kData, "{}", answer.substr(1));
  return answer.substr(1);
}

}  // namespace trireme::ckpt
