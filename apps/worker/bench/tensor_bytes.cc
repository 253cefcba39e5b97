#include "tensor_bytes.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace trireme::app {
namespace {

struct Account {
  void add(std::int64_t bytes) {
    const std::int64_t now = live += bytes;
    std::int64_t most = peak;
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
  }
  std::atomic<std::int64_t> live{0}, peak{0};
};

thread_local std::shared_ptr<Account> account;

// A block with the account that its bytes came from.
struct Block {
  c10::DataPtr memory;
  std::shared_ptr<Account> account;
  std::int64_t bytes;
};

// LibTorch's allocator with the blocks that are counted. Lives as long as the process: tensors are freed until its
// very end.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  // As in memory.cc: what a version of LibTorch lacks overrides nothing.
  c10::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return release; }

  static CountingAllocator* installed;

 private:
  c10::DataPtr take(std::size_t bytes) const {
    c10::DataPtr memory = inner_->allocate(bytes);
    void* const data = memory.get();
    if (!account || data == nullptr) return memory;
    const auto size = static_cast<std::int64_t>(bytes);
    account->add(size);
    std::lock_guard lock(mutex_);
    blocks_.emplace(data, Block{std::move(memory), account, size});
    return {data, data, release, c10::Device(c10::kCPU)};
  }

  static void release(void* data) {
    CountingAllocator& self = *installed;
    std::unique_lock lock(self.mutex_);
    const auto found = self.blocks_.extract(data);
    lock.unlock();
    if (found.empty()) return self.inner_->raw_deleter()(data);
    found.mapped().account->add(-found.mapped().bytes);
  }

  c10::Allocator* inner_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<void*, Block> blocks_;
};

CountingAllocator* CountingAllocator::installed = nullptr;

}  // namespace

TensorBytes::TensorBytes() { account = std::make_shared<Account>(); }

TensorBytes::~TensorBytes() { account.reset(); }

void TensorBytes::install() {
  CountingAllocator::installed = new CountingAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(CountingAllocator::installed, 1);
}

std::int64_t TensorBytes::take_peak() { return account->peak.exchange(account->live); }

}  // namespace trireme::app
