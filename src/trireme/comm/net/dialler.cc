#include "trireme/comm/net/dialler.h"

#include <algorithm>
#include <stdexcept>

#include "trireme/base/error.h"

namespace trireme::comm::net {

Listener listen(Rendezvous& rendezvous) {
  const RendezvousConfig& config = rendezvous.config();
  try {
    const std::string host = own_address(config);
    Listener listener(host);
    const std::string address = config.listens ? host + " " + listener.port() : kNowhere;
    rendezvous.store()->set(Dialler::key(config.rank), {address.begin(), address.end()});
    return listener;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(ErrorKind::kUsage, "rank {}: no network device ({}): {}; name an interface of this host",
         config.rank, config.interface.empty() ? "default" : config.interface, error.what());
  }
}

const std::string& Dialler::address_of(int peer) {
  if (!addresses_.contains(peer)) {
    const auto value = rendezvous_.store()->get(key(peer));
    addresses_[peer] = {value.begin(), value.end()};
  }
  return addresses_.at(peer);
}

os::Descriptor Dialler::direct(int peer, double seconds) {
  const std::string& address = address_of(peer);
  if (address == kNowhere) throw std::runtime_error("no other host can connect to it");
  const std::size_t space = address.find(' ');
  return dial(address.substr(0, space), address.substr(space + 1), seconds);
}

os::Descriptor Dialler::relayed(int peer, int stream, double seconds) {
  const RendezvousConfig& config = rendezvous_.config();
  const int high = std::max(peer, config.rank), low = std::min(peer, config.rank);
  const std::string name =
      fmt::format("{}|{}|{} and {} stream {}", elastic::hmac(proofs_.secret, "relay"), proofs_.run,
                  high, low, stream);
  return dial_relay(config.relay, config.relay_key, name, config.rank == high ? 0 : 1, seconds);
}

std::pair<std::unique_ptr<Stream>, std::uint64_t> Dialler::introduce(os::Descriptor socket,
                                                                     int peer, int stream,
                                                                     const Resumption& resumption) {
  const RendezvousConfig& config = rendezvous_.config();
  Hello hello{config.rank, peer, stream, resumption.number, to_mac(elastic::random_bytes(32)), {}};
  auto connection = tls_ == nullptr ? make_plain_stream(std::move(socket))
                                    : make_tls_client(*tls_, std::move(socket),
                                                      proofs_.name(config.rank, peer, stream));
  const Stopwatch watch;
  Mac theirs{}, proof{};
  move(*connection, {false, &theirs, sizeof theirs}, watch, kPatience);
  hello.proof = proofs_.make("dialler", theirs, hello);
  move(*connection, {true, &hello, sizeof hello}, watch, kPatience);
  move(*connection, {false, &proof, sizeof proof}, watch, kPatience);
  if (!proofs_.fits(proof, "acceptor", theirs, hello))
    throw std::runtime_error("what answers does not have the secret");
  char confirmed = 1;
  move(*connection, {true, &confirmed, sizeof confirmed}, watch, kPatience);
  if (resumption.number == 0) return {std::move(connection), 0};
  std::uint64_t there = 0, own = resumption.arrived();
  move(*connection, {false, &there, sizeof there}, watch, kPatience);
  move(*connection, {true, &own, sizeof own}, watch, kPatience);
  return {std::move(connection), there};
}

}  // namespace trireme::comm::net
