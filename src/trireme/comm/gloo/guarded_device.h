// A Gloo device whose connections fail one at a time. Gloo before 2023 takes the first connection to a port for that of
// the expected rank. An exception in its own thread ends the process, for example a reset before the connection was
// accepted, or bytes from a stranger.
#pragma once

#include <gloo/transport/device.h>

#include <functional>
#include <memory>
#include <string>

namespace trireme::comm {

// Where a device listens.
struct DevicePlace {
  std::string interface {};  // empty: the address
  std::string address{};
};

// Asked now and then, by the thread that makes a context, while it awaits a connection: where it says so the attempt ends.
// Empty: it never does.
using GivenUp = std::shared_ptr<std::function<bool()>>;

// Throws Gloo's exception if the place is not on this host. Making a context throws Error{kPeerLost} if no port is
// free. Later releases of Gloo listen on one port, where connections name their purpose: their own device.
std::shared_ptr<::gloo::transport::Device> make_guarded_device(const DevicePlace& place,
                                                               GivenUp given_up);

}  // namespace trireme::comm
