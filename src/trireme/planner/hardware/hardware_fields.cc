#include "trireme/planner/hardware/hardware_fields.h"

namespace trireme::planner {
namespace {

using config::above;
using config::FieldForm;
using config::FieldOf;
using config::from;
using config::or_else;
using config::Range;
using config::Unit;

constexpr Unit kRates[] = {
    {"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"Gb/s", 0.125e9}, {"Mb/s", 0.125e6}};
constexpr Unit kFlops[] = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}};

// Far beyond any machine, and far within what products of them can hold.
constexpr double kMostFlops = 1e18;
constexpr double kMostRate = 1e16;
constexpr double kMostBytes = 0x1p50;

template <typename Owner, typename Member>
FieldOf<Owner> field(FieldForm form, Member& (*at)(Owner&)) {
  FieldOf<Owner> made;
  static_cast<FieldForm&>(made) = std::move(form);
  bind_member(made, at);
  return made;
}

template <typename Owner>
FieldOf<Owner> text(std::string_view key, std::string& (*at)(Owner&), std::string_view doc) {
  return field<Owner>({.key = std::string(key), .doc = std::string(doc)}, at);
}

template <typename Owner>
FieldOf<Owner> flag(std::string_view key, bool& (*at)(Owner&), std::string_view doc) {
  return field<Owner>(
      {.key = std::string(key), .doc = std::string(doc), .kind = FieldForm::Kind::kBool}, at);
}

template <typename Owner, typename Member>
FieldOf<Owner> integer(std::string_view key, Member& (*at)(Owner&), std::string_view doc,
                       Range range) {
  return field<Owner>({.key = std::string(key),
                       .doc = std::string(doc),
                       .kind = FieldForm::Kind::kInteger,
                       .range = range},
                      at);
}

template <typename Owner>
FieldOf<Owner> number(std::string_view key, double& (*at)(Owner&), std::string_view doc,
                      Range range, std::span<const Unit> units = {}) {
  return field<Owner>({.key = std::string(key),
                       .doc = std::string(doc),
                       .kind = FieldForm::Kind::kNumber,
                       .range = range,
                       .units = units},
                      at);
}

template <typename Owner>
FieldOf<Owner> bytes(std::string_view key, std::int64_t& (*at)(Owner&), std::string_view doc,
                     Range range) {
  return field<Owner>({.key = std::string(key),
                       .doc = std::string(doc),
                       .kind = FieldForm::Kind::kBytes,
                       .range = range},
                      at);
}

}  // namespace

std::optional<double> number_of(const config::Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* bytes = std::get_if<Bytes>(&value)) return static_cast<double>(bytes->count);
  return std::nullopt;
}

const FieldList<Gpu>& gpu_fields() {
  static const FieldList<Gpu> kFields = {
      text(KEY_OF(Gpu, name), "Name in reports."),
      number(KEY_OF(Gpu, half_flops),
             "Dense peak in bf16 or fp16, two operations per multiply-add. 0: not supported.",
             from(0, kMostFlops), kFlops),
      flag(KEY_OF(Gpu, bf16), "That peak in bf16 too. false: in fp16 only."),
      number(KEY_OF(Gpu, fp32_flops), "Dense peak in fp32.", from(0, kMostFlops), kFlops),
      number(KEY_OF(Gpu, fp8_flops), "Dense peak in fp8.", from(0, kMostFlops), kFlops),
      bytes(KEY_OF(Gpu, memory),
            "Memory as the driver reports it, a little less than the data sheet's.",
            from(0x1p28, 0x1p44)),
      number(KEY_OF(Gpu, memory_rate), "Peak rate of the memory.", above(0, kMostRate), kRates),
      integer(KEY_OF(Gpu, units), "Streaming multiprocessors. 0: one.", from(0, 1e5)),
      flag(KEY_OF(Gpu, cpu), "A CPU core: ranks are threads, and memory is a part of the host's."),
      number(KEY_OF(Gpu, watts), "Power at full load. 0: unknown.", from(0, 1e5)),
      number(KEY_OF(Gpu, clock),
             "Clock relative to that of the peaks, for parts with a lower power limit.",
             above(0, 1)),
      flag(KEY_OF(Gpu, fitted),
           "Efficiency fitted on measured steps of this GPU. false: forecasts have a wide "
           "band. Not copied by like."),
      number(KEY_OF(Gpu, efficiency.gemm), "Share of the peak that a large matrix product reaches.",
             above(0, 1)),
      number(KEY_OF(Gpu, efficiency.crosswise),
             "Share of gemm for products that sum over rows, such as weight gradients.",
             above(0, 1)),
      number(KEY_OF(Gpu, efficiency.depth),
             "Start and end of a tile, in inner elements of a product.", from(0, 1e5)),
      number(KEY_OF(Gpu, efficiency.tile),
             "Share of the rate lost with every halving of a product's tiles.", from(0, 0.9)),
      number(KEY_OF(Gpu, efficiency.misaligned),
             "Share of the rate left where rows are no multiple of 16 bytes.", above(0, 1)),
      number(KEY_OF(Gpu, efficiency.memory), "Share of memory_rate that streaming kernels reach.",
             above(0, 1)),
      number(KEY_OF(Gpu, efficiency.attention), "Share of the peak that FlashAttention-2 reaches.",
             above(0, 1)),
      number(KEY_OF(Gpu, efficiency.shared),
             "Share of the computing rate left during a collective.", above(0, 1)),
      number(KEY_OF(Gpu, efficiency.kernel_s), "Start time of a kernel.", from(0, 1)),
      number(KEY_OF(Gpu, efficiency.blocked_s),
             "Additional time per kernel under CUDA_LAUNCH_BLOCKING.", from(0, 1)),
  };
  return kFields;
}

const FieldList<NetworkTier>& tier_fields() {
  static const FieldList<NetworkTier> kFields = {
      text(KEY_OF(NetworkTier, name), "Name of the links in reports."),
      integer(KEY_OF(NetworkTier, span),
              "Neighbouring ranks that it joins, a multiple of the previous tier's span. 0: all.",
              or_else(0, from(2, 1e9))),
      number(KEY_OF(NetworkTier, rate),
             "Rate of one rank, one way, while all ranks of its host send.", above(0, kMostRate),
             kRates),
      number(KEY_OF(NetworkTier, latency_s), "Latency of a message.", from(0, 1)),
      number(KEY_OF(NetworkTier, efficiency), "Share of rate that large messages reach.",
             above(0, 1)),
      number(KEY_OF(NetworkTier, copies),
             "Share of rate that a transfer between two ranks reaches.", above(0, 1)),
      number(
          KEY_OF(NetworkTier, in_switch),
          "Share of efficiency of an all-reduce with sums in the switch (NVLS). 0: no such sums.",
          from(0, 1)),
  };
  return kFields;
}

const FieldList<Price>& price_fields() {
  static const FieldList<Price> kFields = {
      text(KEY_OF(Price, provider), "Cloud provider."),
      text(KEY_OF(Price, region), "Region, if prices differ."),
      number(KEY_OF(Price, on_demand), "Dollars per GPU hour. 0: not offered.", from(0, 1e4)),
      number(KEY_OF(Price, spot), "Dollars per GPU hour of a spot instance. 0: not offered.",
             from(0, 1e4)),
      number(KEY_OF(Price, notice_s), "Time from the notice to the loss of a spot host.",
             from(0, 86400)),
      number(KEY_OF(Price, preemptions_per_hour), "Mean preemptions of a spot host per hour.",
             from(0, 1000)),
  };
  return kFields;
}

const FieldList<Cluster>& cluster_fields() {
  static const FieldList<Cluster> kFields = {
      text(KEY_OF(Cluster, name), "Name in reports."),
      integer(KEY_OF(Cluster, gpus_per_host), "GPUs per host.", from(1, 1024)),
      integer(KEY_OF(Cluster, hosts), "Number of hosts.", from(1, 1e6)),
      bytes(KEY_OF(Cluster, host_memory), "Memory per host. 0: no offloading.",
            from(0, kMostBytes)),
      number(KEY_OF(Cluster, host_rate),
             "Rate between a GPU and host memory, each way. 0: no offloading.", from(0, kMostRate),
             kRates),
      number(KEY_OF(Cluster, disk_rate), "Rate of a host's own disks, each way. 0: no disks.",
             from(0, kMostRate), kRates),
      number(KEY_OF(Cluster, checkpoint_rate), "Rate of checkpoint writes per host. 0: unknown.",
             from(0, kMostRate), kRates),
      number(KEY_OF(Cluster, failures_per_gpu_hour),
             "Mean failures of a run per GPU hour. 0: unknown.", from(0, 10)),
      number(KEY_OF(Cluster, restart_s),
             "Time from a failure to the next step, without repeated steps.", from(0, 1e7)),
      number(KEY_OF(Cluster, replace_s), "Additional time to replace a preempted spot host.",
             from(0, 1e7)),
      number(KEY_OF(Cluster, watts_per_host), "Power of a host without its GPUs.", from(0, 1e6)),
      number(KEY_OF(Cluster, power_usage), "Power usage effectiveness of the building (PUE).",
             from(1, 10)),
      integer(KEY_OF(Cluster, reducers.hosts), "Number of reduction servers.", from(0, 1e4)),
      number(KEY_OF(Cluster, reducers.rate), "Link rate of a reduction server, each way.",
             from(0, kMostRate), kRates),
      number(KEY_OF(Cluster, reducers.price), "Dollars per hour of a reduction server.",
             from(0, 1e4)),
  };
  return kFields;
}

}  // namespace trireme::planner
