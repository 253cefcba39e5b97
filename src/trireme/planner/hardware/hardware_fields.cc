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
      text<Gpu>(KEY(name), "What it is called in reports."),
      number<Gpu>(KEY(half_flops),
                  "Dense peak in bf16 or fp16, a multiply-add counting two; 0: it cannot.",
                  from(0, kMostFlops), kFlops),
      flag<Gpu>(KEY(bf16), "Whether it has that in bf16; false: in fp16 alone."),
      number<Gpu>(KEY(fp32_flops), "The same in fp32.", from(0, kMostFlops), kFlops),
      number<Gpu>(KEY(fp8_flops), "The same in fp8.", from(0, kMostFlops), kFlops),
      bytes<Gpu>(KEY(memory),
                 "Memory that processes can have, as the driver reports it: a little less than the "
                 "data sheet's.",
                 from(0x1p28, 0x1p44)),
      number<Gpu>(KEY(memory_rate), "Peak rate of that memory.", above(0, kMostRate), kRates),
      integer<Gpu>(KEY(units),
                   "Streaming multiprocessors, over which a matrix product's tiles are spread; 0: "
                   "one.",
                   from(0, 1e5)),
      flag<Gpu>(
          KEY(cpu),
          "Whether it is a core of a CPU: ranks are threads, and memory its part of the host's."),
      number<Gpu>(KEY(watts), "Power at full load; 0: not known.", from(0, 1e5)),
      number<Gpu>(KEY(clock),
                  "Share of its peaks' clock that it keeps within its watts, where a part of the "
                  "same kind has more of them.",
                  above(0, 1)),
      flag<Gpu>(
          KEY(fitted),
          "Whether its efficiency was fitted on steps that were measured on it; without that a "
          "forecast's band is that of guesses. A GPU that is like another has to say it again."),
      number<Gpu>(KEY(efficiency.gemm),
                  "Share of the peak that a matrix product reaches which fills the device.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.crosswise),
                  "Of that, the share of one that sums over rows, as weight gradients do.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.depth),
                  "Inner elements whose products take as long as beginning and ending a tile.",
                  from(0, 1e5)),
      number<Gpu>(KEY(efficiency.tile),
                  "Share of its rate that a product loses with every halving of its tiles.",
                  from(0, 0.9)),
      number<Gpu>(KEY(efficiency.misaligned),
                  "Share of its rate that a product keeps whose rows are no multiple of 16 bytes.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.memory), "Share of memory_rate that kernels reach which stream.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.attention),
                  "Share of the peak that fused attention of the second generation reaches.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.shared),
                  "Share of its rate that computing keeps while a collective runs beside it.",
                  above(0, 1)),
      number<Gpu>(KEY(efficiency.kernel_s), "Seconds of every kernel beside its work.", from(0, 1)),
      number<Gpu>(KEY(efficiency.blocked_s),
                  "More of them where the host waits for every kernel (CUDA_LAUNCH_BLOCKING).",
                  from(0, 1)),
  };
  return kFields;
}

const FieldList<NetworkTier>& tier_fields() {
  static const FieldList<NetworkTier> kFields = {
      text<NetworkTier>(KEY(name), "What its links are called in reports."),
      integer<NetworkTier>(
          KEY(span),
          "Neighbouring ranks that it joins, a multiple of the tier's before; 0: all "
          "there are.",
          or_else(0, from(2, 1e9))),
      number<NetworkTier>(
          KEY(rate),
          "What one rank sends, one way, while all of its host do: the host's rate by its "
          "GPUs.",
          above(0, kMostRate), kRates),
      number<NetworkTier>(KEY(latency_s), "Seconds of one message beside its bytes.", from(0, 1)),
      number<NetworkTier>(KEY(efficiency), "Share of rate that large messages reach.", above(0, 1)),
      number<NetworkTier>(KEY(copies), "Share of rate that a transfer between two ranks reaches.",
                          above(0, 1)),
      number<NetworkTier>(
          KEY(in_switch),
          "Share of efficiency that an all-reduce keeps whose sums the switch makes (NVLS); "
          "0: it makes none.",
          from(0, 1)),
  };
  return kFields;
}

const FieldList<Price>& price_fields() {
  static const FieldList<Price> kFields = {
      text<Price>(KEY(provider), "Who lets it."),
      text<Price>(KEY(region), "Where, if prices differ."),
      number<Price>(KEY(on_demand), "Dollars an hour of one GPU; 0: not offered.", from(0, 1e4)),
      number<Price>(KEY(spot), "The same where it may be taken away; 0: not offered.",
                    from(0, 1e4)),
      number<Price>(KEY(notice_s), "Seconds between the notice and the loss of a spot host.",
                    from(0, 86400)),
      number<Price>(KEY(preemptions_per_hour),
                    "How often a spot host is taken, on average in one hour.", from(0, 1000)),
  };
  return kFields;
}

const FieldList<Cluster>& cluster_fields() {
  static const FieldList<Cluster> kFields = {
      text<Cluster>(KEY(name), "What it is called in reports."),
      integer<Cluster>(KEY(gpus_per_host), "GPUs of one host.", from(1, 1024)),
      integer<Cluster>(KEY(hosts), "Hosts there are.", from(1, 1e6)),
      bytes<Cluster>(KEY(host_memory), "Memory of one host; 0: none to offload to.",
                     from(0, kMostBytes)),
      number<Cluster>(KEY(host_rate),
                      "Between one GPU and its host's memory, each way; 0: none to offload to.",
                      from(0, kMostRate), kRates),
      number<Cluster>(KEY(disk_rate), "Of one host's own disks, each way; 0: it has none.",
                      from(0, kMostRate), kRates),
      number<Cluster>(KEY(checkpoint_rate),
                      "What one host writes to where checkpoints stay; 0: not known.",
                      from(0, kMostRate), kRates),
      number<Cluster>(KEY(failures_per_gpu_hour),
                      "How often a run is stopped, on average for each hour of each GPU; 0: not "
                      "known.",
                      from(0, 10)),
      number<Cluster>(KEY(restart_s),
                      "Seconds from a failure to the next step, without steps that are repeated.",
                      from(0, 1e7)),
      number<Cluster>(KEY(replace_s),
                      "Seconds beside that until there is another host for a spot host that was "
                      "taken.",
                      from(0, 1e7)),
      number<Cluster>(KEY(watts_per_host), "Power of a host beside its GPUs'.", from(0, 1e6)),
      number<Cluster>(KEY(power_usage),
                      "What the building draws for each watt of its machines (PUE).", from(1, 10)),
  };
  return kFields;
}

}  // namespace trireme::planner
