// network.nccl: variables of NCCL, and what is refused.
#include "trireme/config/values/nccl_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/config/error_of.h"
#include "trireme/base/fs.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config::nccl_settings_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string refusal(const std::string& text) {
  return usage_error_of([&] { nccl_variables(text); });
}

TEST(Nccl, SettingsBecomeVariablesAndListsKeepTheirCommas) {
  EXPECT_THAT(nccl_variables(""), IsEmpty());
  EXPECT_THAT(
      nccl_variables("algo=Ring,Tree,proto=^LL128,ib_hca==mlx5_0:1,mlx5_1:1,buffsize=2097152"),
      ElementsAre(Pair("NCCL_ALGO", "Ring,Tree"), Pair("NCCL_PROTO", "^LL128"),
                  Pair("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"), Pair("NCCL_BUFFSIZE", "2097152")));
  EXPECT_THAT(nccl_variables("nsocks_perthread=4,socket_nthreads=16,p2p_level=nvl,nthreads=512"),
              ElementsAre(Pair("NCCL_NSOCKS_PERTHREAD", "4"), Pair("NCCL_SOCKET_NTHREADS", "16"),
                          Pair("NCCL_P2P_LEVEL", "nvl"), Pair("NCCL_NTHREADS", "512")));
}

TEST(Nccl, UnknownNamesAndValuesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(refusal("algorithm=Ring"),
              AllOf(HasSubstr("unknown setting \"algorithm\"; choose among algo, proto, buffsize"),
                    HasSubstr("topo_file, debug, or set other variables in the environment")));
  EXPECT_THAT(refusal("Ring"), HasSubstr("unknown setting \"Ring\""));
  EXPECT_THAT(refusal("algo=Circle"), HasSubstr("algo=Circle; needs some of Tree, Ring"));
  EXPECT_THAT(refusal("algo=Ring,Circle"), HasSubstr("algo=Ring,Circle; needs some of"));
  EXPECT_THAT(refusal("algo=Ring,algo=Tree"), HasSubstr("algo is set twice"));
  EXPECT_THAT(refusal("debug"), HasSubstr("debug has no value; needs debug=one of VERSION"));
  EXPECT_THAT(refusal("debug=WARN,INFO"), HasSubstr("debug=WARN,INFO; needs one of VERSION"));
  EXPECT_THAT(refusal("ib_timeout=23"), HasSubstr("a whole number from 1 to 22"));
  EXPECT_THAT(refusal("buffsize=2MB"), HasSubstr("buffsize=2MB; needs a whole number"));
  EXPECT_THAT(refusal("nthreads=100"), HasSubstr("one of 64, 128, 256, 512"));
  EXPECT_THAT(refusal("topo_file="), HasSubstr("topo_file=; needs a value"));
  EXPECT_THAT(refusal("socket_nthreads=16,nsocks_perthread=8"),
              HasSubstr("at most 64 sockets, so lower one"));
  EXPECT_THAT(refusal("min_ctas=8,max_ctas=4"), HasSubstr("min_ctas=8 is above max_ctas=4"));
}

TEST(Nccl, IsForGpus) {
  const auto with = [](const std::vector<std::string>& sets) {
    Job job;
    for (const std::string& set : sets) apply_set(job, set);
    return resolve(job, 1, {.vocab = 256});
  };
  EXPECT_THAT(usage_error_of([&] { with({"network.nccl=algo=Ring"}); }),
              HasSubstr("run.device=cpu: its ranks do not use NCCL; set run.device=cuda, or leave "
                        "network.nccl out"));
  EXPECT_EQ(with({"network.nccl=algo=Ring", "run.device=cuda"}).network.nccl, "algo=Ring");
  EXPECT_THAT(usage_error_of([&] {
                with({"network.nccl=ring", "run.device=cuda"});
              }),
              HasSubstr("choose among"));
}

TEST(Nccl, TheTableOfTheDocsHasEverySetting) {
  const std::string page = read_file(TRIREME_SOURCE_DIR "/docs/results/gpu.md");
  for (const NcclSetting& setting : nccl_settings())
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` |", setting.name)));
}

TEST(Nccl, SettingsOfDebuggingAreFound) {
  const auto left = [](std::map<std::string, std::string> environment) {
    return left_from_debugging([&](const char* name) -> std::optional<std::string> {
      const auto found = environment.find(name);
      return found == environment.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_THAT(left({}), IsEmpty());
  EXPECT_THAT(left({{"NCCL_DEBUG", "WARN"},
                    {"NCCL_P2P_DISABLE", "0"},
                    {"TORCH_DISTRIBUTED_DEBUG", "INFO"},
                    {"NCCL_SOCKET_IFNAME", "eth0"},
                    {"NCCL_ALGO", ""}}),
              IsEmpty());
  EXPECT_THAT(left({{"NCCL_DEBUG", "trace"},
                    {"NCCL_IB_DISABLE", "1"},
                    {"CUDA_LAUNCH_BLOCKING", "1"},
                    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}}),
              ElementsAre(HasSubstr("NCCL_DEBUG=trace is set: every rank logs every call. Unset"),
                          HasSubstr("NCCL_IB_DISABLE=1 is set: hosts exchange over TCP"),
                          HasSubstr("waits for every kernel"), HasSubstr("compared among ranks")));
}

}  // namespace
}  // namespace trireme::config::nccl_settings_test
