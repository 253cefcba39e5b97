#include <thread>
#include <utility>
#include <vector>

#include "trireme/base/scratch/mover.h"

namespace trireme::scratch {
namespace {

class Threads : public Mover {
 public:
  Threads(TransferCall call, Place place, int count)
      : call_(std::move(call)), place_(std::move(place)) {
    for (int i = 0; i < count; ++i) slots_.emplace_back(place_);
    for (Slot& slot : slots_) threads_.emplace_back([this, &slot] { run(slot); });
  }
  ~Threads() override {
    backlog_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(std::deque<Piece> pieces) override { backlog_.add(std::move(pieces)); }

 private:
  void run(Slot& slot) {
    while (std::optional<Piece> piece = backlog_.wait()) {
      slot.start(std::move(*piece), place_);
      while (!slot.finish(call_(slot.request()), place_)) continue;
    }
  }

  const TransferCall call_;
  const Place place_;
  Backlog backlog_;
  std::deque<Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Mover> make_threads(TransferCall call, Place place, int threads) {
  return std::make_unique<Threads>(std::move(call), std::move(place), threads);
}

}  // namespace trireme::scratch
