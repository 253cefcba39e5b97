#include "trireme/base/network_devices.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/formats/scratch.h"

namespace trireme::network_devices_test {
namespace {

TEST(NetworkDevices, InterfacesThatAreUpAndPortsOfRdma) {
  const formats::Scratch root;
  EXPECT_EQ(network_devices(root.path()), "no interface is up; no RDMA devices");
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / ("sys/" + file)).parent_path());
    root.write("sys/" + file, text + "\n");
  };
  write("class/net/eth0/operstate", "up");
  write("class/net/eth0/speed", "100000");
  write("class/net/eth0/mtu", "9000");
  write("class/net/veth1/operstate", "up");
  write("class/net/veth1/speed", "-1");
  write("class/net/veth1/mtu", "1400");
  write("class/net/eth2/operstate", "down");
  EXPECT_EQ(network_devices(root.path()),
            "eth0 100000 Mb/s, MTU 9000; veth1 of unknown speed, MTU 1400; no RDMA devices");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
  EXPECT_TRUE(network_devices(root.path())
                  .ends_with("; RDMA: mlx5_0:1 InfiniBand, 400 Gb/sec (4X NDR), ACTIVE; "
                             "nvidia_peermem not loaded"))
      << network_devices(root.path());
  write("module/nvidia_peermem/version", "1");
  EXPECT_TRUE(network_devices(root.path()).ends_with("; nvidia_peermem loaded"));
}

}  // namespace
}  // namespace trireme::network_devices_test
