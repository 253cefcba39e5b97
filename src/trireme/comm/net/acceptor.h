// Acceptor: connections that come to this rank, and the newest resumption of each stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "trireme/base/os/descriptor.h"
#include "trireme/comm/net/handshake.h"

namespace trireme::comm::net {

class Acceptor {
 public:
  // `tls` may be null; with it, only connections of `peers` with one of `streams` to `rank` come through their handshake.
  Acceptor(const Tls* tls, const Proofs& proofs, int rank, const std::vector<int>& peers,
           int streams);

  // Null where the connection has ended already.
  std::unique_ptr<Pending> take(os::Descriptor socket) const;

  // The dialler of a stream counts its resumptions. An older one may arrive later, from a connection that its dialler has
  // given up. Any thread may call these.
  bool is_newer(const Hello& hello) const;
  // Of a hello that has proven itself. Throws std::runtime_error where it is not newer than all before.
  void note(const Hello& hello);
  bool is_newest(const Hello& hello) const;

 private:
  std::int32_t newest(const Hello& hello) const;

  const Tls* tls_;
  elastic::Expected expected_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, std::int32_t> newest_;  // by rank and stream
};

}  // namespace trireme::comm::net
