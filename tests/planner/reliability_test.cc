#include "trireme/planner/hardware/reliability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/config/error_of.h"

namespace trireme::planner::reliability_test {
namespace {

using config::usage_error_of;
using ::testing::HasSubstr;

constexpr double kHour = 3600;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// 419 unexpected stops in 54 days on 16,384 GPUs (arXiv 2407.21783, section 3.3.4).
constexpr double kLlamaRate = 419.0 / (54 * 24 * 16384.0);

TEST(Mttf, IsOfTheWholeRun) {
  EXPECT_NEAR(kLlamaRate, 1.97e-5, 0.005e-5);
  EXPECT_NEAR(mttf_s(kLlamaRate, 16384) / kHour, 3.1, 0.05);
  // 7.9 h at 1,024 GPUs (arXiv 2410.21680) is six times worse.
  EXPECT_NEAR(1 / (7.9 * 1024) / kLlamaRate, 6, 0.3);
  EXPECT_EQ(mttf_s(0, 8), kInfinite);
}

// Young 1974: for rare failures.
double young_interval_s(double stall_s, double mttf_s) { return std::sqrt(2 * stall_s * mttf_s); }

// The next terms of young_interval_s (Daly 2006, equation 37).
double daly_interval_s(double stall_s, double mttf_s) {
  const double ratio = stall_s / (2 * mttf_s);
  return young_interval_s(stall_s, mttf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stall_s;
}

TEST(Interval, BestIsWhereGoodputIsLargest) {
  for (const double stall : {0.5, 6.3, 148.8, 2000.0})
    for (const double mttf : {900.0, 11136.0, 28440.0}) {
      const Failures failures{.mttf_s = mttf, .restart_s = 600};
      const Checkpointing checkpoint{.stall_s = stall, .write_s = stall};
      const double best = best_interval_s(failures, checkpoint);
      const double most = goodput(failures, checkpoint, best).useful;
      EXPECT_GT(most, goodput(failures, checkpoint, best * 1.01).useful);
      EXPECT_GT(most, goodput(failures, checkpoint, best * 0.99).useful);
      if (stall < mttf / 20) {  // what Daly's series is for
        EXPECT_NEAR(daly_interval_s(stall, mttf) / best, 1, 0.001) << stall << " " << mttf;
      }
      if (stall < mttf / 200) {
        EXPECT_NEAR(young_interval_s(stall, mttf) / best, 1, 0.06) << stall << " " << mttf;
      }
    }
}

TEST(Interval, IsNotShorterThanTheWriteBehindIt) {
  // 4 TB at 2 GB/s take 2000 s, and are copied in 40 s.
  const Checkpointing checkpoint = write_async(4e12, 2e9, 100e9);
  EXPECT_DOUBLE_EQ(checkpoint.stall_s, 40);
  EXPECT_DOUBLE_EQ(checkpoint.write_s, 2000);
  const Failures failures{.mttf_s = 10000, .restart_s = 600};
  EXPECT_LT(young_interval_s(40, 10000), 1000);
  EXPECT_DOUBLE_EQ(best_interval_s(failures, checkpoint), 1960);
  EXPECT_THAT(usage_error_of([&] { goodput(failures, checkpoint, 900); }),
              HasSubstr("900 s between checkpoints, and writing one takes 1960 s during training"));
  EXPECT_DOUBLE_EQ(write_at_once(4e12, 2e9).stall_s, 2000);
}

TEST(Goodput, OfLlama3) {
  const double mttf = mttf_s(kLlamaRate, 16384);
  const Checkpointing checkpoint{.stall_s = 6.3, .write_s = 6.3};
  const auto useful = [&](double restart_s) {
    const Failures failures{.mttf_s = mttf, .restart_s = restart_s};
    return goodput(failures, checkpoint, best_interval_s(failures, checkpoint)).useful;
  };
  EXPECT_NEAR(useful(600), 0.917, 0.001);
  EXPECT_NEAR(useful(750), 0.904, 0.001);
  EXPECT_NEAR(useful(900), 0.892, 0.001);  // a quarter of an hour a stop is too much for 90 %
  // 148.8 s of waiting for every checkpoint cost more than a tenth of the time.
  const Failures failures{.mttf_s = mttf, .restart_s = 750};
  const Checkpointing waits{.stall_s = 148.8, .write_s = 148.8};
  EXPECT_LT(goodput(failures, waits, best_interval_s(failures, waits)).useful, 0.8);
}

TEST(Goodput, WithoutFailuresIsWhatCheckpointsLeave) {
  const Failures none{.mttf_s = kInfinite, .restart_s = 600};
  const Goodput shares = goodput(none, {.stall_s = 10, .write_s = 10}, 990);
  EXPECT_DOUBLE_EQ(shares.useful, 0.99);
  EXPECT_NEAR(shares.stalled, 0.01, 1e-15);
  EXPECT_EQ(best_interval_s(none, {.stall_s = 10, .write_s = 10}), kInfinite);
  EXPECT_EQ(goodput(none, {.stall_s = 10, .write_s = 10}, kInfinite).useful, 1);
}

// A run, event by event: trains, saves behind its back, is stopped and preempted.
class Life {
 public:
  Life(const Failures& failures, const Checkpointing& checkpoint, const Spot& spot, double interval)
      : failures_(failures), checkpoint_(checkpoint), spot_(spot), interval_(interval) {
    next_failure_ = draw(failures_.mttf_s);
    next_preemption_ = draw(spot_.preemption_s);
  }

  Goodput live(double seconds) {
    while (now_ < seconds) train();
    Goodput shares{.useful = saved_ / now_, .restarting = restarting_ / now_};
    shares.stalled = stalled_ / now_;
    shares.repeated = 1 - shares.useful - shares.stalled - shares.restarting;
    return shares;
  }

 private:
  double draw(double mean) {
    return std::isinf(mean) ? kInfinite : now_ + std::exponential_distribution<>(1 / mean)(random_);
  }

  // Whether the run gets as far as `until` undisturbed; else it has been started again.
  bool reaches(double until) {
    const bool saves = spot_.notice_s >= checkpoint_.write_s;
    if (next_preemption_ < until && next_preemption_ < next_failure_) {
      if (saves) {
        // All that was done is written at once; failures wait, as the formula has it.
        now_ = next_preemption_;
        const double done = std::min(now_ - began_, interval_ - done_);
        saved_ += pending_ + done;
        pending_ = 0;
        done_ += done;
        const double took = checkpoint_.write_s + failures_.restart_s + spot_.replace_s;
        now_ += took;
        restarting_ += took;
        next_failure_ += took;
        next_preemption_ = draw(spot_.preemption_s);
        return false;
      }
      now_ = next_preemption_;
      next_preemption_ = draw(spot_.preemption_s);
      restart();
      return false;
    }
    if (next_failure_ < until) {
      now_ = next_failure_;
      next_failure_ = draw(failures_.mttf_s);
      restart();
      return false;
    }
    now_ = until;
    return true;
  }

  void restart() {
    pending_ = 0;
    pending_stall_ = 0;
    done_ = 0;
    double left = failures_.restart_s + spot_.replace_s;
    while (true) {
      const double strike = std::min(next_failure_, next_preemption_);
      if (strike >= now_ + left) break;
      restarting_ += strike - now_;
      now_ = strike;
      if (strike == next_failure_)
        next_failure_ = draw(failures_.mttf_s);
      else
        next_preemption_ = draw(spot_.preemption_s);
    }
    now_ += left;
    restarting_ += left;
  }

  void train() {
    const double behind = checkpoint_.write_s - checkpoint_.stall_s;
    began_ = now_;
    const double length = interval_ - done_;
    if (pending_ > 0) {
      if (!reaches(now_ + behind)) return;
      saved_ += pending_;
      stalled_ += pending_stall_;
      pending_ = 0;
    }
    if (!reaches(began_ + length + checkpoint_.stall_s)) return;
    pending_ = length;
    pending_stall_ = checkpoint_.stall_s;
    done_ = 0;
    if (behind == 0) {
      saved_ += pending_;
      stalled_ += pending_stall_;
      pending_ = 0;
    }
  }

  Failures failures_;
  Checkpointing checkpoint_;
  Spot spot_;
  double interval_;
  std::mt19937_64 random_{7};
  double now_ = 0;
  double began_ = 0;
  double next_failure_ = 0;
  double next_preemption_ = 0;
  double saved_ = 0;
  double stalled_ = 0;
  double restarting_ = 0;
  double pending_ = 0;  // trained and not written yet
  double pending_stall_ = 0;
  double done_ = 0;  // of the interval, and saved
};

constexpr double kLong = 3e8;  // some 30,000 failures: shares vary by half a percent of themselves

TEST(Goodput, IsWhatASimulatedRunHas) {
  const Spot owned{.preemption_s = kInfinite};
  for (const Checkpointing checkpoint :
       {Checkpointing{100, 100}, Checkpointing{5, 400}, Checkpointing{0.1, 900}})
    for (const double interval : {1000.0, 4000.0}) {
      const Failures failures{.mttf_s = 10000, .restart_s = 700};
      const Goodput forecast = goodput(failures, checkpoint, interval);
      const Goodput seen = Life(failures, checkpoint, owned, interval).live(kLong);
      EXPECT_NEAR(forecast.useful, seen.useful, 0.003);
      EXPECT_NEAR(forecast.stalled, seen.stalled, 0.001);
      EXPECT_NEAR(forecast.repeated, seen.repeated, 0.003);
      EXPECT_NEAR(forecast.restarting, seen.restarting, 0.002);
    }
}

TEST(Goodput, OfSpotMachinesIsWhatASimulatedRunHas) {
  const Failures failures{.mttf_s = 50000, .restart_s = 300};
  const Checkpointing checkpoint{.stall_s = 4, .write_s = 60};
  const Spot warned{.preemption_s = 7200, .notice_s = 120, .replace_s = 200};
  const Spot sudden{.preemption_s = 7200, .notice_s = 30, .replace_s = 200};
  ASSERT_TRUE(saves_in_time(warned, checkpoint));
  ASSERT_FALSE(saves_in_time(sudden, checkpoint));

  for (const Spot& spot : {warned, sudden}) {
    const double interval = best_interval_s(failures, checkpoint, spot);
    const double forecast = goodput(failures, checkpoint, spot, interval).useful;
    const double seen = Life(failures, checkpoint, spot, interval).live(kLong).useful;
    EXPECT_NEAR(forecast, seen, 0.005) << spot.notice_s;
  }
  // Notice enough spares the repeated steps: fewer checkpoints, more of the time.
  EXPECT_GT(best_interval_s(failures, checkpoint, warned),
            2 * best_interval_s(failures, checkpoint, sudden));
  EXPECT_GT(goodput(failures, checkpoint, warned, 600).useful,
            goodput(failures, checkpoint, sudden, 600).useful + 0.03);
}

TEST(Goodput, SharesAddUp) {
  const Goodput shares = goodput({.mttf_s = 9000, .restart_s = 500}, {.stall_s = 3, .write_s = 50},
                                 {.preemption_s = 20000, .notice_s = 60, .replace_s = 100}, 500);
  EXPECT_NEAR(shares.useful + shares.stalled + shares.repeated + shares.restarting, 1, 1e-12);
  EXPECT_GT(shares.repeated, 0);
}

TEST(Goodput, RefusesWhatCannotBe) {
  const Checkpointing checkpoint{.stall_s = 1, .write_s = 1};
  EXPECT_THAT(usage_error_of([&] { goodput({.mttf_s = 0}, checkpoint, 10); }),
              HasSubstr("0 s between failures"));
  EXPECT_THAT(usage_error_of([&] { goodput({.mttf_s = 10, .restart_s = -1}, checkpoint, 10); }),
              HasSubstr("a restart of -1 s"));
  EXPECT_THAT(usage_error_of([] { goodput({.mttf_s = 10}, {.stall_s = 5, .write_s = 2}, 10); }),
              HasSubstr("stalls for 5 s and is written after 2 s"));
  EXPECT_THAT(usage_error_of([&] { goodput({.mttf_s = 10}, checkpoint, 0); }),
              HasSubstr("0 s between checkpoints"));
  EXPECT_THAT(usage_error_of([] { write_at_once(1e9, 0); }), HasSubstr("is 0 bytes a second"));
  EXPECT_THAT(usage_error_of([&] { goodput({.mttf_s = 10}, checkpoint, Spot{}, 10); }),
              HasSubstr("0 s between preemptions"));
}

}  // namespace
}  // namespace trireme::planner::reliability_test
