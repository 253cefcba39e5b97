#include "trireme/planner/hardware/money.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

Goodput goodput_of(const Cluster& cluster, const Rental& run, const Price& price, bool spot) {
  const Failures failures{.mttf_s = mttf_s(cluster.failures_per_gpu_hour, run.gpus),
                          .restart_s = cluster.restart_s};
  if (!spot)
    return goodput(failures, run.checkpoint,
                   interval_of(run, best_interval_s(failures, run.checkpoint)));
  const double hosts = std::ceil(run.gpus / cluster.gpus_per_host);
  const Spot taken{.preemption_s = 3600 / (price.preemptions_per_hour * hosts),
                   .notice_s = price.notice_s,
                   .replace_s = cluster.replace_s};
  return goodput(failures, run.checkpoint, taken,
                 interval_of(run, best_interval_s(failures, run.checkpoint, taken)));
}

Offer offer_of(const Cluster& cluster, const Rental& run, const Price& price, bool spot) {
  Offer offer{.provider = price.provider,
              .region = price.region,
              .spot = spot,
              .dollars_per_gpu_hour = spot ? price.spot : price.on_demand,
              .goodput = goodput_of(cluster, run, price, spot)};
  offer.hours = run.useful_hours / offer.goodput.useful;
  offer.gpu_hours = offer.hours * run.gpus;
  offer.in_time = run.deadline_hours == 0 || offer.hours <= run.deadline_hours;
  offer.bill.push_back(
      {fmt::format("{}s", cluster.device()), offer.gpu_hours * offer.dollars_per_gpu_hour});
  if (run.dollars_per_kwh > 0)
    offer.bill.push_back(
        {"energy", energy_kwh(cluster, run.gpus, offer.hours) * run.dollars_per_kwh});
  offer.bill.insert(offer.bill.end(), run.extras.begin(), run.extras.end());
  return offer;
}

void check_run(const Rental& run) {
  if (!(run.gpus > 0)) fail(ErrorKind::kUsage, "a run on {} GPUs; needs one or more", run.gpus);
  if (!(run.useful_hours > 0))
    fail(ErrorKind::kUsage, "a run of {} hours; needs more than 0", run.useful_hours);
  if (!(run.deadline_hours >= 0))
    fail(ErrorKind::kUsage, "a deadline of {} hours; needs 0 (none) or more", run.deadline_hours);
}

}  // namespace

double train_seconds(double flops, double gpus, double flops_per_gpu) {
  if (!(gpus > 0) || !(flops_per_gpu > 0))
    fail(ErrorKind::kUsage, "{} GPUs with {} FLOP/s each; needs more than 0 of both", gpus,
         flops_per_gpu);
  return flops / (gpus * flops_per_gpu);
}

Length length(const std::vector<Phase>& phases) {
  Length all;
  for (const Phase& phase : phases) {
    if (!(phase.steps >= 0) || !(phase.step_s >= 0) || !(phase.gpus >= 0))
      fail(ErrorKind::kUsage, "phase {}: {} steps of {} s on {} GPUs; needs numbers from 0 on",
           phase.name, phase.steps, phase.step_s, phase.gpus);
    all.seconds += phase.steps * phase.step_s;
    all.gpu_hours += phase.steps * phase.step_s * phase.gpus / 3600;
  }
  return all;
}

double energy_kwh(const Cluster& cluster, double gpus, double hours) {
  const double hosts = std::ceil(gpus / cluster.gpus_per_host);
  const double watts = gpus * cluster.gpu.watts + hosts * cluster.watts_per_host;
  return watts * cluster.power_usage * hours / 1000;
}

double dollars(const std::vector<Item>& items) {
  double sum = 0;
  for (const Item& item : items) sum += item.dollars;
  return sum;
}

double interval_of(const Rental& run, double best_s) {
  return std::min(best_s, std::max(3600 * run.useful_hours, run.checkpoint.write_s));
}

std::vector<Offer> offers(const Cluster& cluster, const Rental& run) {
  check_run(run);
  if (cluster.prices.empty())
    fail(ErrorKind::kUsage,
         "cluster {} has no prices; needs a list such as \"prices: [{{provider: mine, on_demand: "
         "2}}]\"",
         cluster.name);
  std::vector<Offer> list;
  for (const Price& price : cluster.prices) {
    if (price.on_demand > 0) list.push_back(offer_of(cluster, run, price, false));
    if (price.spot > 0) list.push_back(offer_of(cluster, run, price, true));
  }
  const auto rank = [](const Offer& offer) {
    return std::tuple(!offer.in_time, dollars(offer.bill), offer.hours);
  };
  std::ranges::stable_sort(list, {}, rank);
  return list;
}

std::string name(const Offer& offer) {
  return fmt::format("{}{}{}{}", offer.provider, offer.region.empty() ? "" : " ", offer.region,
                     offer.spot ? ", spot" : "");
}

Mix mix(const Rental& run, const std::vector<Part>& parts) {
  const double extras = dollars(run.extras);
  Mix all{.parts = parts, .dollars = extras};
  double shares = 0;
  for (const Part& part : parts) {
    if (!(part.share >= 0))
      fail(ErrorKind::kUsage, "a share of {} of the run; needs 0 or more", part.share);
    shares += part.share;
    all.hours += part.share * part.offer.hours;
    all.gpu_hours += part.share * part.offer.gpu_hours;
    all.dollars += part.share * (dollars(part.offer.bill) - extras);
  }
  constexpr double kRounding = 1e-9;
  if (!(std::abs(shares - 1) < kRounding))
    fail(ErrorKind::kUsage, "shares of the run add up to {}; needs 1", shares);
  return all;
}

// One limit on the hours: the least dollars lie with one offer, or on the line between two.
Mix cheapest(const Cluster& cluster, const Rental& run) {
  const std::vector<Offer> list = offers(cluster, run);
  Mix best{.dollars = std::numeric_limits<double>::infinity()};
  const auto consider = [&](const std::vector<Part>& parts) {
    Mix candidate = mix(run, parts);
    if (candidate.dollars < best.dollars) best = std::move(candidate);
  };
  if (list.front().in_time) consider({{.offer = list.front()}});
  for (const Offer& slow : list) {
    if (slow.in_time) continue;
    for (const Offer& fast : list) {
      if (!fast.in_time) continue;
      const double share = (run.deadline_hours - fast.hours) / (slow.hours - fast.hours);
      if (share > 0)
        consider({{.offer = slow, .share = share}, {.offer = fast, .share = 1 - share}});
    }
  }
  if (!best.parts.empty()) return best;
  const Offer& fastest = *std::ranges::min_element(list, {}, &Offer::hours);
  fail(ErrorKind::kUsage,
       "no offer ends within {:.6g} hours: {} is the fastest with {:.6g}; needs a later deadline, "
       "more GPUs or faster ones",
       run.deadline_hours, name(fastest), fastest.hours);
}

}  // namespace trireme::planner
