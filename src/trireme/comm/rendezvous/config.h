// How the processes of a run find each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/comm/algorithm/links.h"

namespace trireme::comm {

struct RendezvousConfig {
  int rank = 0;
  int size = 1;
  int servers = 0;         // of them, the last: reduction servers, which are no ranks of the world
  double server_rate = 1;  // of this one, if it is a server
  std::string host = "127.0.0.1";  // where the key-value store listens
  int port = 29500;
  bool host_store = true;  // rank 0 hosts the store; false: a launcher already does
  std::string agent{};     // where the agent's store is, which is used instead; empty: none
  std::string agent_token{};
  std::uint64_t generation = 0;    // of the agent's ranks
  std::string run_id = "trireme";  // names the run in a store that outlives it; fresh per restart
  std::string host_name{};         // ranks of different names share no memory
  algorithm::Links links{};        // measured, equal on all ranks; without hosts: unknown
  std::string link_name{};         // name of this rank's host in `links`
  std::string interface {};        // network interface of the data; empty: the one towards `host`
  bool listens = true;             // false: no other host can connect to this one
  std::string relay{};  // HOST:PORT of the relay for hosts that cannot connect; empty: none
  std::string relay_key{};
  double resume_s = 0;             // streams that are cut are connected again within; 0: never
  double timeout_s = 300;          // a rank silent for longer is lost
  double connect_timeout_s = 120;  // for all ranks to come together
  // Called with the progress of this rank: before asking the "store", waiting for the "ranks", and making the "links"
  // to them.
  std::function<void(const char*)> on_stage{};
};

}  // namespace trireme::comm
