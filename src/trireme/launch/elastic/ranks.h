// Ranks: the processes of one host that are the ranks of a generation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/memory_groups.h"
#include "trireme/base/os/address.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/base/os/processes.h"
#include "trireme/launch/elastic/lookout.h"
#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

// Environment of a rank in addition to torchrun's RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT.
inline constexpr char kStoreVariable[] = "TRIREME_STORE";  // the address of the store
inline constexpr char kTokenVariable[] =
    "TRIREME_STORE_TOKEN";  // a descriptor that the token can be read from
inline constexpr char kGenerationVariable[] = "TRIREME_GENERATION";
inline constexpr char kServersVariable[] = "TRIREME_SERVERS";  // number of reduction servers
inline constexpr char kLinksVariable[] = "TRIREME_LINKS";      // a file of measured links
inline constexpr char kRelayVariable[] = "TRIREME_RELAY";      // HOST:PORT of the relay
inline constexpr char kRelayKeyVariable[] = "TRIREME_RELAY_KEY_FILE";
inline constexpr char kDialOnlyVariable[] = "TRIREME_DIAL_ONLY";  // 1: no other host can connect
inline constexpr char kMemoryVariable[] =
    "TRIREME_MEMORY";  // a directory in memory that outlives the ranks
inline constexpr char kFlightVariable[] =
    "TRIREME_FLIGHT";  // a descriptor of the memory for its flight record

class Ranks {
 public:
  struct Config {
    std::vector<std::string> command;  // an absolute path and its arguments, equal for all ranks
    std::vector<std::string> environment;  // "KEY=VALUE"; what names the rank is set on top
    int count = 1;
    os::Address store{};
    std::string token{};
    // A line that a rank other than 0 wrote; rank 0 writes where the caller does.
    std::function<void(int rank, std::string_view line)> on_line{};
    // As trireme::memory_kills().
    std::function<std::optional<std::int64_t>()> memory_kills = [] {
      return trireme::memory_kills();
    };
  };

  Ranks(os::Processes& processes, Config config);

  // Throws Error{kUsage} when one cannot be started: those before it run.
  void start(const Assignment& assignment);
  void signal(int number);
  // Those that have not ended.
  std::vector<Watched> watched() const;
  // Prints a rank's line; passes a rank's end to `on_end` (without a time).
  void handle(const os::ProcessEvent& event, const std::function<void(const RankEnd&)>& on_end);

 private:
  bool starved(const os::ProcessEvent& event);
  std::vector<std::string> environment(const Assignment& assignment, int local_rank,
                                       int flight) const;

  os::Processes& processes_;
  Config config_;
  os::Descriptor token_;
  std::map<int, Watched> running_;            // by process
  std::optional<std::int64_t> memory_kills_;  // as many as are accounted for
};

}  // namespace trireme::elastic
