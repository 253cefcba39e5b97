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

constexpr Unit kRates[] = {{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"Gb/s", 0.125e9}};
constexpr Unit kFlops[] = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}};

// Far beyond any machine, and far within what products of them can hold.
constexpr double kMostFlops = 1e18;
constexpr double kMostRate = 1e16;
constexpr double kMostBytes = 0x1p50;

template <typename Owner, typename At>
FieldOf<Owner> field(FieldForm form, At at) {
  FieldOf<Owner> made;
  static_cast<FieldForm&>(made) = std::move(form);
  bind(made, at);
  return made;
}

template <typename Owner, typename At>
FieldOf<Owner> text(std::string key, At at, std::string doc) {
  return field<Owner>({.key = std::move(key), .doc = std::move(doc)}, at);
}

template <typename Owner, typename At>
FieldOf<Owner> flag(std::string key, At at, std::string doc) {
  return field<Owner>(
      {.key = std::move(key), .doc = std::move(doc), .kind = FieldForm::Kind::kBool}, at);
}

template <typename Owner, typename At>
FieldOf<Owner> integer(std::string key, At at, std::string doc, Range range) {
  return field<Owner>({.key = std::move(key),
                       .doc = std::move(doc),
                       .kind = FieldForm::Kind::kInteger,
                       .range = range},
                      at);
}

template <typename Owner, typename At>
FieldOf<Owner> number(std::string key, At at, std::string doc, Range range,
                      std::span<const Unit> units = {}) {
  return field<Owner>({.key = std::move(key),
                       .doc = std::move(doc),
                       .kind = FieldForm::Kind::kNumber,
                       .range = range,
                       .units = units},
                      at);
}

template <typename Owner, typename At>
FieldOf<Owner> bytes(std::string key, At at, std::string doc, Range range) {
  return field<Owner>({.key = std::move(key),
                       .doc = std::move(doc),
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
      text<Gpu>(KEY(name), "Name in reports."),
      number<Gpu>(
          KEY(half_flops),
          "Dense peak in bf16 or fp16, with two operations a multiply-add; 0: not supported.",
          from(0, kMostFlops), kFlops),
      flag<Gpu>(KEY(bf16), "Support of bf16; false: fp16 only."),
      number<Gpu>(KEY(fp32_flops), "Dense peak in fp32.", from(0, kMostFlops), kFlops),
      number<Gpu>(KEY(fp8_flops), "Dense peak in fp8.", from(0, kMostFlops), kFlops),
      bytes<Gpu>(KEY(memory),
                 "Memory available to processes, as the driver reports it; a little less than the "
                 "data sheet's.",
                 from(0x1p28, 0x1p44)),
      number<Gpu>(KEY(memory_rate), "Peak rate of the memory.", above(0, kMostRate), kRates),
      integer<Gpu>(
          KEY(units),
          "Number of streaming multiprocessors, which share the tiles of a matrix product; 0: one.",
          from(0, 1e5)),
      flag<Gpu>(KEY(cpu), "Core of a CPU: ranks are threads, and memory is a share of the host's."),
      number<Gpu>(KEY(watts), "Power at full load; 0: not known.", from(0, 1e5)),
      number<Gpu>(KEY(clock),
                  "Share of the peak clock that the power limit allows, where the same chip is "
                  "sold with more watts.",
                  above(0, 1)),
      flag<Gpu>(KEY(fitted),
                "Efficiency fitted on measured steps of this GPU; false: the band of a forecast is "
                "that of guesses. Not inherited through like."),
      number<Gpu>(KEY(efficiency.gemm),
                  "Share of the peak that a matrix product reaches when it fills the device.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.crosswise),
                  "Share of efficiency.gemm that a product summing over rows reaches, such as a "
                  "weight gradient.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.depth),
                  "Inner elements whose products take as long as the start and end of a tile.",
                  from(0, 1e5)),
      number<Gpu>(KEY(efficiency.tile),
                  "Share of the rate that a product loses with every halving of its tiles.",
                  from(0, 0.9)),
      number<Gpu>(
          KEY(efficiency.misaligned),
          "Share of the rate that a product keeps when its rows are not a multiple of 16 bytes.",
          above(0, 1)),
      number<Gpu>(KEY(efficiency.memory), "Share of memory_rate that streaming kernels reach.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.attention),
                  "Share of the peak that fused attention of the second generation reaches.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.shared),
                  "Share of the rate that computing keeps while a collective runs.", above(0, 1)),
      number<Gpu>(KEY(efficiency.kernel_s), "Fixed seconds of every kernel.", from(0, 1)),
      number<Gpu>(
          KEY(efficiency.blocked_s),
          "Additional seconds of every kernel when the host waits for it (CUDA_LAUNCH_BLOCKING).",
          from(0, 1)),
  };
  return kFields;
}

const FieldList<NetworkTier>& tier_fields() {
  static const FieldList<NetworkTier> kFields = {
      text<NetworkTier>(KEY(name), "Name of the links in reports."),
      integer<NetworkTier>(
          KEY(span),
          "Number of neighbouring ranks that the tier joins, a multiple of the previous "
          "tier's; 0: all.",
          or_else(0, from(2, 1e9))),
      number<NetworkTier>(
          KEY(rate),
          "Rate at which one rank sends while all ranks of its host send: the host's rate "
          "divided by its GPUs.",
          above(0, kMostRate), kRates),
      number<NetworkTier>(KEY(latency_s), "Latency of a message in seconds.", from(0, 1)),
      number<NetworkTier>(KEY(efficiency), "Share of rate that large messages reach.", above(0, 1)),
      number<NetworkTier>(KEY(copies), "Share of rate that a transfer between two ranks reaches.",
                          above(0, 1)),
      number<NetworkTier>(
          KEY(in_switch),
          "Share of efficiency that an all-reduce keeps when the switch adds (NVLS); 0: "
          "the switch does not add.",
          from(0, 1)),
  };
  return kFields;
}

const FieldList<Price>& price_fields() {
  static const FieldList<Price> kFields = {
      text<Price>(KEY(provider), "Cloud provider."),
      text<Price>(KEY(region), "Region, if prices differ."),
      number<Price>(KEY(on_demand), "Dollars an hour of one GPU; 0: not offered.", from(0, 1e4)),
      number<Price>(KEY(spot), "Dollars an hour of one GPU that may be preempted; 0: not offered.",
                    from(0, 1e4)),
      number<Price>(KEY(notice_s), "Seconds between the notice and the loss of a spot host.",
                    from(0, 86400)),
      number<Price>(KEY(preemptions_per_hour),
                    "Mean number of preemptions of a spot host in an hour.", from(0, 1000)),
  };
  return kFields;
}

const FieldList<Cluster>& cluster_fields() {
  static const FieldList<Cluster> kFields = {
      text<Cluster>(KEY(name), "Name in reports."),
      integer<Cluster>(KEY(gpus_per_host), "GPUs of one host.", from(1, 1024)),
      integer<Cluster>(KEY(hosts), "Number of hosts.", from(1, 1e6)),
      bytes<Cluster>(KEY(host_memory), "Memory of one host; 0: none to offload to.",
                     from(0, kMostBytes)),
      number<Cluster>(
          KEY(host_rate),
          "Rate between one GPU and its host's memory, each way; 0: none to offload to.",
          from(0, kMostRate), kRates),
      number<Cluster>(KEY(disk_rate), "Rate of one host's local disks, each way; 0: no local disk.",
                      from(0, kMostRate), kRates),
      number<Cluster>(KEY(checkpoint_rate),
                      "Rate at which one host writes checkpoints; 0: not known.",
                      from(0, kMostRate), kRates),
      number<Cluster>(
          KEY(failures_per_gpu_hour),
          "Mean number of failures that stop a run, for each GPU and hour; 0: not known.",
          from(0, 10)),
      number<Cluster>(KEY(restart_s),
                      "Seconds from a failure to the next step, without steps that are repeated.",
                      from(0, 1e7)),
      number<Cluster>(KEY(replace_s), "Additional seconds until a preempted spot host is replaced.",
                      from(0, 1e7)),
      number<Cluster>(KEY(watts_per_host), "Power of a host without its GPUs.", from(0, 1e6)),
      number<Cluster>(KEY(power_usage),
                      "Power of the building for each watt of its machines (PUE).", from(1, 10)),
  };
  return kFields;
}

}  // namespace trireme::planner
