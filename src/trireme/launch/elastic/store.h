// The key-value store that the ranks of a generation meet in. Pure: requests in, replies out. It serves one generation
// at a time: what an older one left cannot be read, and what is left of an older one is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/launch/elastic/messages.h"

namespace trireme::elastic {

class Store {
 public:
  using Client = std::uint64_t;
  using Replies = std::vector<std::pair<Client, StoreReply>>;

  // kGet and kWait are answered once the key is there, which another client's request may bring about.
  Replies ask(Client client, const StoreRequest& request);
  // From now on serves this generation only, with no key; 0: none. Refuses what waits.
  Replies serve(std::uint64_t generation);
  // The client will not hear a reply.
  void forget(Client client);

  std::uint64_t generation() const { return generation_; }

 private:
  StoreReply answer(const StoreRequest& request);
  bool waits(const StoreRequest& request) const;

  std::uint64_t generation_ = 0;
  std::map<std::string, std::string> values_;
  std::vector<std::pair<Client, StoreRequest>> waiting_;
};

}  // namespace trireme::elastic
