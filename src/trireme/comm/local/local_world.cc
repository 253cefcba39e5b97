#include "trireme/comm/local/local_world.h"

#include <exception>
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/comm/composed_group.h"
#include "trireme/comm/local/board.h"

namespace trireme::comm {

struct LocalWorld::State {
  State(int n, double timeout_s) : size(n), fate(std::make_shared<LocalFate>(timeout_s)) {}

  void abort(const std::string& cause) {
    if (!fate->abort(cause)) return;
    std::lock_guard lock(mutex);
    for (const auto& weak : alive)
      if (const auto board = weak.lock()) board->wake_all();
  }

  // The board of a group, made by the first rank that asks and kept until the last has asked.
  std::shared_ptr<Board> join(const std::string& key, const std::vector<int>& ranks) {
    std::lock_guard lock(mutex);
    auto& [board, missing] = forming[key];
    if (!board) {
      board = std::make_shared<Board>(fate, ranks);
      missing = ranks.size();
      std::erase_if(alive, [](const auto& weak) { return weak.expired(); });
      alive.push_back(board);
    }
    auto joined = board;
    if (--missing == 0) forming.erase(key);
    return joined;
  }

  int size;
  std::shared_ptr<LocalFate> fate;
  std::mutex mutex;
  std::map<std::string, std::pair<std::shared_ptr<Board>, std::size_t>> forming;
  std::vector<std::weak_ptr<Board>> alive;
};

namespace {

class LocalRank : public World {
 public:
  LocalRank(std::shared_ptr<LocalWorld::State> state, int rank)
      : World(rank, state->size), state_(std::move(state)) {}

  std::string_view via() const override { return "the memory of one process"; }
  void abort(const std::string& cause) override { state_->abort(cause); }
  std::optional<std::string> cause() override { return state_->fate->cause(); }

 private:
  std::unique_ptr<Group> open(const std::string& name, const std::string& key,
                              const std::vector<int>& ranks, int rank,
                              const algorithm::Choice& choice) override {
    auto abort = [state = state_](const std::string& cause) { state->abort(cause); };
    return std::make_unique<ComposedGroup>(
        name, ranks, rank, make_local_transport(state_->join(key, ranks), rank, abort), common(),
        std::nullopt, choice);
  }

  std::shared_ptr<LocalWorld::State> state_;
};

}  // namespace

LocalWorld::LocalWorld(int size, double timeout_s)
    : state_(std::make_shared<State>(size, timeout_s)) {
  TRIREME_CHECK(size >= 1 && timeout_s > 0, "a world of {} ranks, timeout {} s", size, timeout_s);
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<World> LocalWorld::rank(int rank) {
  return std::make_unique<LocalRank>(state_, rank);
}

void LocalWorld::abort(const std::string& cause) { state_->abort(cause); }

void run_ranks(int size, const std::function<void(World&)>& body,
               const std::function<std::unique_ptr<World>(int rank)>& join) {
  std::mutex mutex;
  std::exception_ptr origin;
  std::exception_ptr echo;
  const auto keep = [&](const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    std::lock_guard lock(mutex);
    auto& slot = error && error->kind() == ErrorKind::kPeerLost ? echo : origin;
    if (!slot) slot = std::current_exception();
  };
  // No rank begins before all can: those that run would wait for the others.
  std::latch begin(1);
  bool all = false;
  const auto run = [&](int rank) {
    begin.wait();
    if (!all) return;
    try {
      const auto world = join(rank);
      try {
        body(*world);
      } catch (const std::exception& e) {
        keep(e);
        world->abort(fmt::format("rank {} failed: {}", rank, e.what()));
      }
    } catch (const std::exception& e) {
      keep(e);
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto let_go = [&](bool every) {
      all = every;
      begin.count_down();
    };
    try {
      for (int rank = 0; rank < size; ++rank) threads.emplace_back(run, rank);
    } catch (const std::system_error& error) {
      let_go(false);
      fail(ErrorKind::kUsage,
           "cannot start rank {} of {} as a thread: {}; start fewer ranks, or raise ulimit -u and "
           "the container's limit of processes",
           threads.size(), size, error.what());
    }
    let_go(true);
  }
  if (origin) std::rethrow_exception(origin);
  if (echo) std::rethrow_exception(echo);
}

void run_local_ranks(int size, double timeout_s, const std::function<void(World&)>& body) {
  LocalWorld world(size, timeout_s);
  run_ranks(size, body, [&](int rank) { return world.rank(rank); });
}

}  // namespace trireme::comm
