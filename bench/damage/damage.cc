// damage CHECKPOINT N SEED: N random flips of a bit or cuts of a file, in memory; N=all: every bit and every length.
// Fails if the reader accepts one, or refuses it without naming file and place.
#include "tests/harness/damage.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "apps/guard.h"
#include "trireme/base/clock.h"

namespace trireme {
namespace {

constexpr std::size_t kSmall = 64 << 10;  // bytes of which all can be tried

void try_at_random(harness::DamageCheck& check, std::size_t bytes, std::int64_t count,
                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    // Every byte of the checkpoint is as likely as any other.
    std::size_t at = random() % bytes;
    auto file = check.files().files().begin();
    for (; at >= file->second.size(); ++file) at -= file->second.size();
    if (random() % 8 == 0)
      check.cut(file->first, at);
    else
      check.flip(file->first, 8 * at + random() % 8);
  }
}

int run(const std::string& directory, const std::string& count, std::uint64_t seed) {
  harness::DamageCheck check(harness::HeldFiles(directory, os::real_file_system()));
  std::size_t bytes = 0;
  for (const auto& [name, text] : check.files().files()) bytes += text.size();
  if (count == "all" && bytes > kSmall)
    fail(ErrorKind::kUsage, "{}: has {} bytes, at most {} can be tried whole; give a number",
         directory, bytes, kSmall);
  const Stopwatch watch;
  if (count == "all")
    check.everything();
  else
    try_at_random(check, bytes, std::atoll(count.c_str()), seed);
  fmt::print("{}: {} bytes in {} files, {} damages in {:.1f} s, {} not refused by name\n",
             directory, bytes, check.files().files().size(), check.tried(), watch.seconds(),
             check.wrong().size());
  for (const std::string& wrong : check.wrong()) fmt::print("  {}\n", wrong);
  return check.wrong().empty() && check.tried() > 0 ? 0 : 1;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: damage CHECKPOINT N|all SEED\n", stderr), 2;
  return trireme::app::guarded(
      [&] { return trireme::run(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10)); });
}
