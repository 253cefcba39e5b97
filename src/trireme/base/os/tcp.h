// Options of TCP connections that outlive cuts of the network.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace trireme::os {

// An idle connection without an answer for so long has ended. Data streams wait 60 s for another connection.
inline constexpr int kUnanswered_s = 90;

// After a cut, bytes are sent again within 8 s of the network's return: by default the pause between attempts doubles up
// to two minutes. The kernel gives up after 15 attempts, here 85 s. Kernels before 6.15 do not have the option.
inline void retransmit_soon(int socket) {
  constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS, which older headers do not name
  const int longest_ms = 8000;
  ::setsockopt(socket, IPPROTO_TCP, kRtoMaxMs, &longest_ms, sizeof longest_ms);
}

// Both ends notice within seconds of the network's return if the other has given the connection up meanwhile, also the
// one that has nothing to send.
inline void outlive_cuts(int socket) {
  constexpr int kIdle_s = 5, kBetween_s = 5;
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdle_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kBetween_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, (kUnanswered_s - kIdle_s) / kBetween_s);
  retransmit_soon(socket);
}

}  // namespace trireme::os
