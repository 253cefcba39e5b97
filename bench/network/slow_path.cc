// slow_path: joins network namespaces by a path with latency and loss. Each gets a TUN device named `wire`; packets between
// them are held for a delay, and a share of them is lost. Ends with its input and prints what it did, as JSON.
//   slow_path --delay-ms 50 --loss 0.01 --seed 1 a=10.213.0.1 b=10.213.0.2
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "apps/guard.h"
#include "bench/network/held.h"
#include "trireme/base/error.h"
#include "trireme/base/os/descriptor.h"

namespace trireme::bench {
namespace {

constexpr std::size_t kLargestPacket = 65536;
constexpr std::size_t kDestination = 16, kIpv4Header = 20;  // bytes of an IPv4 header

struct Options {
  double delay_ms = 0, loss = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> ends;  // NAMESPACE=ADDRESS
};

struct End {
  os::Descriptor device;
  in_addr address{};
};

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// A TUN device in the namespace. This thread stays there; devices belong to the namespace in which they were opened.
os::Descriptor open_device(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const os::Descriptor space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (space.get() < 0 || setns(space.get(), CLONE_NEWNET) != 0)
    fail(ErrorKind::kUsage, "{}: {}; needs a namespace made by `ip netns add`, and root", path,
         std::strerror(errno));
  os::Descriptor device(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strncpy(request.ifr_name, "wire", IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (device.get() < 0 || ioctl(device.get(), TUNSETIFF, &request) != 0)
    fail(ErrorKind::kUsage, "no TUN device in {}: {}; needs /dev/net/tun and root", name,
         std::strerror(errno));
  return device;
}

std::vector<End> open_ends(const std::vector<std::string>& texts) {
  std::vector<End> ends;
  for (const std::string& text : texts) {
    const std::size_t equal = text.find('=');
    in_addr address{};
    if (equal == std::string::npos || inet_pton(AF_INET, text.c_str() + equal + 1, &address) != 1)
      fail(ErrorKind::kUsage, "{}: needs NAMESPACE=ADDRESS, such as a=10.213.0.1", text);
    ends.push_back({open_device(text.substr(0, equal)), address});
  }
  return ends;
}

// The end that an IPv4 packet is for; the number of ends if it is for none.
std::size_t receiver(const std::vector<End>& ends, std::span<const std::byte> packet) {
  if (packet.size() < kIpv4Header || std::to_integer<int>(packet[0]) >> 4 != 4) return ends.size();
  std::size_t to = 0;
  while (to < ends.size() &&
         std::memcmp(&ends[to].address, packet.data() + kDestination, sizeof(in_addr)) != 0)
    ++to;
  return to;
}

class SlowPath {
 public:
  SlowPath(std::vector<End> ends, const HeldPackets::Path& path)
      : ends_(std::move(ends)), held_(path) {
    for (const End& end : ends_)
      polled_.push_back({.fd = end.device.get(), .events = POLLIN, .revents = 0});
    polled_.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
  }

  void run() {
    while (true) {
      wait();
      for (std::size_t from = 0; from < ends_.size(); ++from)
        if (polled_[from].revents != 0) take_all(from);
      held_.release(now(), [&](std::size_t to, std::span<const std::byte> packet) {
        if (write(ends_[to].device.get(), packet.data(), packet.size()) < 0) ++refused_;
      });
      if (polled_.back().revents != 0 && read(STDIN_FILENO, packet_.data(), packet_.size()) <= 0)
        return;
    }
  }

  std::string report() const {
    HeldPackets::Counts sum;
    for (const HeldPackets::Counts& one : held_.counts()) {
      sum.taken += one.taken;
      sum.lost += one.lost;
      sum.dropped += one.dropped;
      sum.bytes += one.bytes;
    }
    return fmt::format(
        R"({{"packets": {}, "lost": {}, "dropped": {}, "refused": {}, "bytes": {}}})", sum.taken,
        sum.lost, sum.dropped, refused_, sum.bytes);
  }

 private:
  // Until a packet comes, the next one is released, or the input ends.
  void wait() {
    timespec rest{};
    if (!held_.empty()) {
      const Time left = std::max(held_.next_release() - now(), Time(0));
      rest = {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    }
    for (pollfd& one : polled_) one.revents = 0;
    if (ppoll(polled_.data(), polled_.size(), held_.empty() ? nullptr : &rest, nullptr) < 0 &&
        errno != EINTR)
      fail(ErrorKind::kUsage, "poll: {}", std::strerror(errno));
  }

  void take_all(std::size_t from) {
    ssize_t size = 0;
    while ((size = read(ends_[from].device.get(), packet_.data(), packet_.size())) > 0) {
      const std::span<const std::byte> packet(packet_.data(), static_cast<std::size_t>(size));
      const std::size_t to = receiver(ends_, packet);
      if (to < ends_.size()) held_.take(from, to, packet, now());
    }
    if (size < 0 && errno != EAGAIN && errno != EINTR)
      fail(ErrorKind::kUsage, "end {}: {}; its namespace went away", from, std::strerror(errno));
  }

  std::vector<End> ends_;
  HeldPackets held_;
  std::vector<pollfd> polled_;
  std::int64_t refused_ = 0;
  std::array<std::byte, kLargestPacket> packet_{};
};

int run(const Options& options) {
  const HeldPackets::Path path{.delay = Time(static_cast<std::int64_t>(options.delay_ms * 1e6)),
                               .loss = options.loss,
                               .seed = options.seed};
  SlowPath slow(open_ends(options.ends), path);
  fmt::print("ready\n");
  std::fflush(stdout);
  slow.run();
  fmt::print("{}\n", slow.report());
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  trireme::bench::Options options;
  CLI::App app{"Joins network namespaces by a path with latency and loss.", "slow_path"};
  app.add_option("--delay-ms", options.delay_ms, "delay of a packet, one way, in milliseconds")
      ->check(CLI::Range(0.0, 1e5));
  app.add_option("--loss", options.loss, "share of packets that are lost, one way")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", options.seed, "seed of the losses");
  app.add_option("ends", options.ends, "NAMESPACE=ADDRESS of each end")
      ->required()
      ->expected(2, 64);
  CLI11_PARSE(app, argc, argv);
  return trireme::app::guarded([&] { return trireme::bench::run(options); });
}
