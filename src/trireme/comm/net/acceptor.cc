#include "trireme/comm/net/acceptor.h"

#include <stdexcept>
#include <string>

namespace trireme::comm::net {

Acceptor::Acceptor(const Tls* tls, const Proofs& proofs, int rank, const std::vector<int>& peers,
                   int streams)
    : tls_(tls) {
  if (tls_ == nullptr) return;
  std::vector<std::string> names;  // either rank of a pair may dial
  for (const int peer : peers)
    for (int stream = 0; stream < streams; ++stream)
      names.push_back(proofs.name(peer, rank, stream));
  expected_ = tls_->expect(names);
}

std::unique_ptr<Pending> Acceptor::take(os::Descriptor socket) const {
  try {
    return std::make_unique<Pending>(tls_ == nullptr
                                         ? make_plain_stream(std::move(socket))
                                         : make_tls_server(*tls_, std::move(socket), expected_));
  } catch (const std::runtime_error&) {
    return nullptr;
  }
}

std::int32_t Acceptor::newest(const Hello& hello) const {
  const auto found = newest_.find({hello.from, hello.stream});
  return found == newest_.end() ? 0 : found->second;
}

bool Acceptor::is_newer(const Hello& hello) const {
  const std::lock_guard lock(mutex_);
  return hello.resumption > newest(hello);
}

void Acceptor::note(const Hello& hello) {
  const std::lock_guard lock(mutex_);
  if (hello.resumption <= newest(hello)) throw std::runtime_error("an old resumption");
  newest_[{hello.from, hello.stream}] = hello.resumption;
}

bool Acceptor::is_newest(const Hello& hello) const {
  const std::lock_guard lock(mutex_);
  return hello.resumption == newest(hello);
}

}  // namespace trireme::comm::net
