#include "trireme/planner/hardware/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/config/error_of.h"
#include "tests/harness/scratch_directory.h"
#include "tests/planner/cluster_print.h"
#include "trireme/base/fs.h"
#include "trireme/planner/hardware/hardware_fields.h"

namespace trireme::planner::cluster_file_test {
namespace {

using cluster_print::help_clusters;
using cluster_print::print_cluster;
using cluster_print::shipped_page;
using config::usage_error_of;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kOwn = R"(
name: mine
gpu: {like: h100-sxm, name: slow, watts: 500, efficiency: {gemm: 0.7}}
gpus_per_host: 4
hosts: 16
host_memory: 1TiB
checkpoint_rate: 2 GB/s
failures_per_gpu_hour: 2e-5
tiers:
  - {name: nvlink, span: 4, rate: 450GB/s, latency_s: 3e-6, efficiency: 0.8}
  - {name: ethernet, rate: 200Gb/s}
prices:
  - {provider: a, region: x, on_demand: 3, spot: 1.5, notice_s: 30, preemptions_per_hour: 0.1}
  - {provider: a, region: y, on_demand: 2}
)";

Cluster own() { return parse_cluster(kOwn, "own.yaml"); }

TEST(ClusterFile, ReadsSizesRatesAndOverrides) {
  const Cluster cluster = own();
  EXPECT_EQ(cluster.gpus(), 64);
  EXPECT_EQ(cluster.host_memory, std::int64_t{1} << 40);
  EXPECT_EQ(cluster.checkpoint_rate, 2e9);
  EXPECT_EQ(cluster.tiers.at(1).rate, 25e9);  // 200 Gb/s
  EXPECT_EQ(cluster.tiers.at(1).span, 0);
  EXPECT_EQ(cluster.prices.at(1).spot, 0);

  Gpu expected = find_gpu("h100-sxm");
  EXPECT_EQ(expected.half_flops, 989e12);
  expected.name = "slow";
  expected.watts = 500;
  expected.efficiency.gemm = 0.7;
  EXPECT_TRUE(expected.fitted);
  expected.fitted = false;  // as it is now, nothing was measured
  EXPECT_EQ(cluster.gpu, expected);
}

TEST(ClusterFile, IsLikeAnotherButForWhatItSays) {
  const Cluster mine =
      parse_cluster("like: dgx-h100\nhosts: 4\ngpu: {watts: 600}\nprices: []\n", "own.yaml");
  Cluster expected = find_cluster("dgx-h100");
  expected.hosts = 4;
  expected.gpu.watts = 600;
  expected.gpu.fitted = false;
  expected.prices.clear();
  EXPECT_EQ(mine, expected);
}

TEST(ClusterFile, PrintsWhatReadsBackTheSame) {
  EXPECT_EQ(parse_cluster(print_cluster(own()), "printed"), own());
  EXPECT_THAT(print_cluster(own()),
              HasSubstr("  - name: ethernet\n    span: 0\n    rate: 25GB/s\n"));
  for (const std::string& name : shipped_clusters())
    EXPECT_EQ(parse_cluster(print_cluster(find_cluster(name)), name), find_cluster(name)) << name;
}

// Sets every number of the owner to one that its field allows.
template <typename Owner>
void draw(Owner& owner, const FieldList<Owner>& fields, std::mt19937_64& random) {
  for (const config::FieldOf<Owner>& field : fields) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const double number = field.range.min + (field.range.max - field.range.min) * std::pow(unit, 9);
    switch (field.kind) {
      case config::FieldForm::Kind::kNumber:
        if (field.range.holds(number)) field.set(owner, number);
        break;
      case config::FieldForm::Kind::kBytes:
        field.set(owner, Bytes{static_cast<std::int64_t>(number)});
        break;
      default: break;
    }
  }
}

TEST(ClusterFile, PrintsAnyNumberExactly) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    Cluster cluster = own();
    draw(cluster, cluster_fields(), random);
    draw(cluster.gpu, gpu_fields(), random);
    for (NetworkTier& tier : cluster.tiers) draw(tier, tier_fields(), random);
    ASSERT_EQ(parse_cluster(print_cluster(cluster), "printed"), cluster) << print_cluster(cluster);
  }
}

// `kOwn` with its first `before` replaced.
std::string changed(std::string_view before, std::string_view after) {
  std::string text(kOwn);
  const std::size_t at = text.find(before);
  EXPECT_NE(at, text.npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(ClusterFile, RefusesWhatCannotBe) {
  const struct {
    std::string_view before;
    std::string_view after;
    std::string_view message;
  } kCases[] = {
      {"gpus_per_host: 4", "gpus_per_host: 0",
       "own.yaml:4:16: gpus_per_host: 0 is out of range; needs 1 to 1024"},
      {"hosts: 16", "hosts: 1.5", "own.yaml:5:8: hosts: 1.5 is not whole; needs"},
      {"watts: 500", "memory: 0", "gpu.memory: 0 is out of range; needs a size such as 20GiB"},
      {"watts: 500", "memory: 900TiB", "gpu.memory: 900TiB is out of range; needs a size"},
      {"watts: 500", "memory: 80 gigs", "gpu.memory: \"80 gigs\" is not a size"},
      {"watts: 500", "watts: -1", "gpu.watts: -1 is out of range; needs a number from 0"},
      {"gemm: 0.7", "gemm: 0",
       "own.yaml:3:66: gpu.efficiency.gemm: 0 is out of range; needs a number "
       "above 0 up to 1"},
      {"gemm: 0.7", "gem: 0.7", "unknown key \"gpu.efficiency.gem\"; did you mean gemm?"},
      {"efficiency: {gemm: 0.7}", "efficiency: 0.7", "gpu.efficiency: has no map"},
      {"efficiency: 0.8", "efficiency: 1.2", "tiers[0].efficiency: 1.2 is out of range"},
      {"rate: 450GB/s", "rate: 450GB",
       "tiers[0].rate: \"450GB\" is not a number; needs a number above "
       "0 up to 1e+16, alone or in TB/s, GB/s, MB/s, Gb/s"},
      {"rate: 450GB/s", "rate: 0", "tiers[0].rate: 0 is out of range"},
      {"rate: 450GB/s", "rat: 450GB/s", "unknown key \"tiers[0].rat\"; did you mean rate?"},
      {"rate: 450GB/s, ", "", "own.yaml:10:5: tiers[0].rate: missing; needs a number above 0"},
      {"span: 4", "span: 3", "own.yaml:10:26: tiers[0].span: 3 cuts hosts of 4; needs a divisor"},
      {"span: 4", "span: 1", "tiers[0].span: 1 is out of range"},
      {"span: 4, ", "", "tiers[0].span: 0 means all ranks; needs to be the last"},
      {"ethernet", "ethernet, span: 4",
       "tiers[1].span: 4 does not hold whole groups of 4 within it; needs a larger multiple of 4"},
      {"ethernet", "ethernet, span: 32", "tiers[1].span: 32 of 64 GPUs, and no tier after it"},
      {"on_demand: 3", "on_demand: -3", "prices[0].on_demand: -3 is out of range"},
      {"spot: 1.5", "spot: 3.5",
       "own.yaml:13:50: prices[0].spot: 3.5 is above on_demand 3; needs at most that"},
      {"on_demand: 2", "on_demand: 0", "prices[1].on_demand: 0, and spot 0; needs a price"},
      {"region: y", "region: x", "prices: \"a\" appears twice with region \"x\""},
      {"provider: a", "provider: \"\"", "prices[0].provider: missing or empty; needs a name"},
      {"like: h100-sxm", "like: h100-smx",
       "gpu.like: \"h100-smx\" is not shipped; did you mean h100-sxm"},
      {"like: h100-sxm, ", "", "gpu.memory: missing; needs a size"},
      {"name: mine", "like: mine", "own.yaml:2:7: like: \"mine\" is not shipped; clusters are "},
      {"name: mine", "", "name: missing or empty"},
      {"hosts: 16", "tires: 16", "unknown key \"tires\"; did you mean tiers?"},
      {"tiers:", "price:", "unknown key \"price\"; did you mean prices?"},
      {"hosts: 16", "hosts:", "own.yaml:5:1: hosts: has no value; needs 1 to "},
  };
  for (const auto& [before, after, message] : kCases)
    EXPECT_THAT(usage_error_of([&] { parse_cluster(changed(before, after), "own.yaml"); }),
                HasSubstr(message));
  EXPECT_THAT(usage_error_of([] { parse_cluster("name: x\nhosts: 2\n", "x"); }),
              HasSubstr("gpu: missing; needs a map, or the name of a shipped one: a100-40"));
  EXPECT_THAT(usage_error_of([] { parse_cluster("name: x\ngpu: a100-80\nhosts: 2\n", "x"); }),
              HasSubstr("tiers: none for 2 GPUs"));
  EXPECT_THAT(usage_error_of([] { parse_cluster("name: x\ngpu:\n", "x"); }),
              HasSubstr("x:2:1: gpu: missing"));
  EXPECT_THAT(usage_error_of([] { parse_cluster("name: x\ngpu: a100-80\ntiers:\n", "x"); }),
              HasSubstr("x:3:1: tiers: has no list"));
  EXPECT_THAT(usage_error_of([] { parse_cluster("- 1", "x"); }), HasSubstr("x:1:1: has no map"));
}

TEST(Shipped, EveryFileIsWholeAndNamedAsItIsCalled) {
  EXPECT_THAT(shipped_gpus(), Contains("h100-500w"));
  for (const std::string& name : shipped_gpus()) {
    const Gpu gpu = find_gpu(name);
    EXPECT_EQ(gpu.name, name);
    EXPECT_GT(gpu.half_flops, gpu.fp32_flops) << name;
    EXPECT_GT(gpu.watts, 0) << name;
    EXPECT_GT(gpu.units, 0) << name;
  }
  for (const std::string& name : shipped_clusters()) {
    const Cluster cluster = find_cluster(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_EQ(cluster.tiers.back().span, 0) << name;  // however many hosts are asked for
  }
  for (const char* name : {"selene", "jean-zay", "jean-zay-v100", "mosaic-a100-80",
                           "mosaic-a100-40", "mosaic-h100", "dgx-h100", "grand-teton", "fms-a100",
                           "fms-h100", "zb-a100", "aws-p4d", "aws-p5", "gcp-a3", "cpu-host"})
    EXPECT_THAT(shipped_clusters(), Contains(name));
}

TEST(Shipped, IsWhatTheFolderHolds) {
  const Path folder = Path(TRIREME_SOURCE_DIR) / "clusters";
  for (const std::string& name : shipped_clusters())
    EXPECT_EQ(parse_cluster(read_file(folder / (name + ".yaml")), name), find_cluster(name))
        << name;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files += entry.path().extension() == ".yaml" ? 1 : 0;
  EXPECT_EQ(shipped_clusters().size(), files);
}

TEST(FindCluster, TakesAPathOrAName) {
  const Path path = std::filesystem::temp_directory_path() / "trireme_find_cluster_test.yaml";
  std::ofstream(path) << kOwn;
  EXPECT_EQ(find_cluster(path.string()), own());
  std::filesystem::remove(path);
  EXPECT_THAT(usage_error_of([&] { find_cluster(path.string()); }),
              HasSubstr("is neither a file nor a shipped cluster; clusters are aws-p4d, "));
  EXPECT_THAT(usage_error_of([] { find_cluster("selen"); }), HasSubstr("did you mean selene?"));
  EXPECT_THAT(usage_error_of([] { find_gpu("h100"); }),
              HasSubstr("GPUs are a100-40, a100-80, b200, "));
  // One that begins with a brace is no calibration for that.
  const harness::ScratchDirectory scratch;
  const Path flow = scratch.write("flow.yaml", "{like: dgx-h100, name: flow, hosts: 4}\n");
  EXPECT_EQ(find_cluster(flow.string()).hosts, 4);
  const Path half = scratch.write("half.json", "{\"calibrated\": \"2026-01-31\"");
  EXPECT_THAT(usage_error_of([&] { find_cluster(half.string()); }), HasSubstr("half.json"));
}

TEST(HelpClusters, NamesEveryKey) {
  const std::string text = help_clusters();
  EXPECT_THAT(text,
              HasSubstr("- `gpu.memory_rate` (a number above 0 up to 1e+16, alone or in TB/s, "
                        "GB/s, MB/s, Gb/s, Mb/s; needed): "));
  EXPECT_THAT(text, HasSubstr("- `tiers[].span` (2 to 1000000000, or 0; default "
                              "`0`): "));
  EXPECT_THAT(text, HasSubstr("- `hosts` (1 to 1000000; default `1`): "));
  EXPECT_THAT(shipped_page(), HasSubstr("| `a100-80` | 312 | - | 79.25 | 2039 | 400 |"));
}

TEST(HelpClusters, PagesHaveIt) {
  const Path keys = Path(TRIREME_SOURCE_DIR) / "docs" / "clusters.md";
  const Path shipped = Path(TRIREME_SOURCE_DIR) / "clusters" / "README.md";
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) {
    std::string page = read_file(keys);
    page.resize(page.find("## Keys\n"));
    std::ofstream(keys) << page << "## Keys\n\n" << help_clusters();
    std::ofstream(shipped) << shipped_page();
  }
  EXPECT_THAT(read_file(keys), testing::EndsWith(help_clusters()));
  EXPECT_EQ(read_file(shipped), shipped_page());
}

}  // namespace
}  // namespace trireme::planner::cluster_file_test
