#include "trireme/comm/gloo/guarded_device.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "trireme/base/error.h"

#if __has_include(<gloo/transport/tcp/listener.h>)

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace trireme::comm {

std::shared_ptr<::gloo::transport::Device> make_guarded_device(const DevicePlace& place, GivenUp) {
  return place.interface.empty()
             ? c10d::ProcessGroupGloo::createDeviceForHostname(place.address)
             : c10d::ProcessGroupGloo::createDeviceForInterface(place.interface);
}

}  // namespace trireme::comm

#else

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <sys/socket.h>

namespace trireme::comm {
namespace {

namespace tcp = ::gloo::transport::tcp;

bool listens(int socket) {
  int yes = 0;
  socklen_t size = sizeof yes;
  return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

class GuardedPair final : public tcp::Pair {
 public:
  GuardedPair(tcp::Context* context, tcp::Device* device, int rank,
              std::chrono::milliseconds timeout, GivenUp given_up)
      : tcp::Pair(context, device, rank, timeout), given_up_(std::move(given_up)) {}

  ~GuardedPair() override {
    const std::lock_guard handled(handling_);  // Gloo's thread may yet be in fail_with()
    const std::lock_guard lock(m_);
    drop_unknown();
  }

  // In Gloo's thread.
  void handleEvents(int events) override {
    const std::lock_guard handling(handling_);
    try {
      tcp::Pair::handleEvents(events);
    } catch (const std::exception& error) {
      fail_with(error.what());
    }
  }

 protected:
  void waitUntilConnected(std::unique_lock<std::mutex>& lock, bool) override {
    constexpr std::chrono::milliseconds kLook{20};
    for (;; cv_.wait_for(lock, kLook)) {
      throwIfException();
      if (state_ >= CONNECTED) return;
      if (drop_unknown()) signalAndThrowException("a connection ended as it was taken");
      lock.unlock();
      const bool given_up = *given_up_ && (*given_up_)();
      lock.lock();
      if (given_up && state_ < CONNECTED && !ex_)
        signalAndThrowException("the meeting was given up");
    }
  }

 private:
  // The holder of the lock may be waiting for this thread: then the event comes again, or the waiting thread finds the
  // rest.
  void fail_with(const std::string& why) {
    const std::unique_lock lock(m_, std::try_to_lock);
    if (!lock) return;
    drop_unknown();
    if (!ex_) signalException(why);
  }

  // An accepted socket that Gloo's thread does not know, because an exception came first. Closing it in that thread
  // would end the process.
  bool drop_unknown() {
    if (state_ != LISTENING || fd_ < 0 || listens(fd_)) return false;
    ::close(std::exchange(fd_, -1));
    return true;
  }

  GivenUp given_up_;
  std::mutex handling_;
};

class GuardedContext final : public tcp::Context {
 public:
  GuardedContext(std::shared_ptr<tcp::Device> device, int rank, int size, GivenUp given_up)
      : tcp::Context(std::move(device), rank, size), given_up_(std::move(given_up)) {}

  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override {
    auto& pair = pairs_[rank];
    try {
      pair = std::make_unique<GuardedPair>(this, device_.get(), rank, getTimeout(), given_up_);
    } catch (const std::exception& error) {
      fail(ErrorKind::kPeerLost, "no port for the connection to rank {}: {}", rank, error.what());
    }
    return pair;
  }

 private:
  GivenUp given_up_;
};

class GuardedDevice final : public tcp::Device {
 public:
  GuardedDevice(const tcp::attr& where, GivenUp given_up)
      : tcp::Device(where), given_up_(std::move(given_up)) {}

  std::shared_ptr<::gloo::transport::Context> createContext(int rank, int size) override {
    return std::make_shared<GuardedContext>(
        std::static_pointer_cast<tcp::Device>(shared_from_this()), rank, size, given_up_);
  }

 private:
  GivenUp given_up_;
};

}  // namespace

std::shared_ptr<::gloo::transport::Device> make_guarded_device(const DevicePlace& place,
                                                               GivenUp given_up) {
  tcp::attr where;
  where.iface = place.interface;
  where.hostname = place.address;
  return std::make_shared<GuardedDevice>(tcp::CreateDeviceAttr(where), std::move(given_up));
}

}  // namespace trireme::comm

#endif
