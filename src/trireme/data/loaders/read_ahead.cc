#include "trireme/data/loaders/read_ahead.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace trireme::loaders {
namespace {

using Batch = std::vector<at::Tensor>;

class ReadAhead final : public Source {
 public:
  ReadAhead(std::unique_ptr<Source> source, const config::Job& job)
      : source_(std::move(source)), step_(job.run.global_batch) {
    constexpr int kThreads = 2;
    for (int i = 0; i < kThreads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  std::int64_t samples() const override { return source_->samples(); }
  Batch batch(std::int64_t first, std::int64_t count) const override {
    std::future<Batch> coming = expected(first, count);
    Batch batch = coming.valid() ? coming.get() : source_->batch(first, count);
    begin(first + step_, count);
    return batch;
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    return source_->weight(first, count);
  }
  std::vector<std::string> bad() const override { return source_->bad(); }

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // first, count

  std::future<Batch> expected(std::int64_t first, std::int64_t count) const {
    const std::lock_guard lock(mutex_);
    // Training has moved elsewhere: drop samples that no request will ask for.
    std::erase_if(coming_, [&](const auto& one) {
      const std::int64_t ahead = one.first.first - first;
      return ahead <= -step_ || ahead >= 2 * step_;
    });
    const auto found = coming_.find({first, count});
    if (found == coming_.end()) return {};
    std::future<Batch> batch = std::move(found->second);
    coming_.erase(found);
    return batch;
  }

  void begin(std::int64_t first, std::int64_t count) const {
    std::packaged_task<Batch()> task([this, first, count] { return source_->batch(first, count); });
    {
      const std::lock_guard lock(mutex_);
      if (coming_.contains({first, count})) return;
      coming_.emplace(Key{first, count}, task.get_future());
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

  void work(const std::stop_token& stop) const {
    while (true) {
      std::packaged_task<Batch()> task;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [&] { return !tasks_.empty(); })) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::unique_ptr<Source> source_;
  std::int64_t step_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any wake_;
  mutable std::map<Key, std::future<Batch>> coming_;
  mutable std::deque<std::packaged_task<Batch()>> tasks_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace

std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source, const config::Job& job) {
  return std::make_unique<ReadAhead>(std::move(source), job);
}

}  // namespace trireme::loaders
