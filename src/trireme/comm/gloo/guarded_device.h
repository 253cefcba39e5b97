// A Gloo device whose connections fail one at a time. Before 2023 Gloo takes the first connection to a port for the rank
// that it waits for, and an exception in its own thread ends the process, as at a reset before the connection was taken
// or at bytes that no rank sends.
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

// Throws what Gloo does where the place is none of this host's. Making a context throws Error{kPeerLost} where no port can
// be had. Later releases of Gloo listen on one port, where connections name what they are for: their own device.
std::shared_ptr<::gloo::transport::Device> make_guarded_device(const DevicePlace& place,
                                                               GivenUp given_up);

}  // namespace trireme::comm
