// How much a TCP socket takes ahead of what it can send.
#pragma once

namespace trireme::os {

// From now on the socket takes further bytes only while it has less to send than 50 ms of its present rate (between 16 KiB
// and 4 MiB). The caller may send the others over another connection, and a fast one still never runs dry.
void keep_little_unsent(int socket);

}  // namespace trireme::os
