// trireme-worker time-steps: what steps of a job take on random tokens, and its processes of memory.
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/worker/memory/memory.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "cpu_time.h"
#include "pulse.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/train/job_session.h"
#include "trireme/train/machine.h"
#include "trireme/train/run/samples.h"
#include "trireme/train/watch/memory_meter.h"

namespace trireme::app {
namespace {

// StepPulses of the first `pulsing` ranks at once, between steps: of short ones not between all, as they take their caches.
class StepPulses {
 public:
  StepPulses(const config::Job& job, comm::World& world, int pulsing)
      : pulse_(job.precision.compute), world_(world), pulsing_(pulsing) {}

  void before_step() {
    constexpr double kEvery = 0.3;  // seconds
    const bool due = taken_.empty() || since_.seconds() > kEvery;
    if (world_.exchange(due ? "pulse" : "")[0] == "pulse") take();
    last_.push_back(taken_.size() - 1);
  }
  // Of each step, the mean of the pulses around it.
  std::vector<double> around() {
    world_.exchange("pulse");
    take();
    std::vector<double> means;
    for (const std::size_t last : last_) means.push_back((taken_[last] + taken_[last + 1]) / 2);
    return means;
  }

 private:
  void take() {
    taken_.push_back(world_.rank() < pulsing_ ? pulse_.seconds() : 0);
    since_.restart();
  }

  Pulse pulse_;
  comm::World& world_;
  int pulsing_;
  std::vector<double> taken_;
  std::vector<std::size_t> last_;  // of `taken_` before each step
  Stopwatch since_;
};

Json measure(const config::Job& job, comm::World& world, int warmup, int steps, int pulsing) {
  train::JobSession session(job, world);
  train::MemoryMeter meter(&charged_here(), session.device());
  const train::JobSession::Load load = train::load_of(job, job.run.micro_batch);
  StepPulses pulses(job, world, pulsing);
  Json mine;
  for (int step = 0; step < warmup + steps; ++step) {
    if (step >= warmup) pulses.before_step();
    world.exchange("ready");
    const Stopwatch watch;
    const double cpu = process_cpu_seconds();
    meter.begin_step();
    session.train(step, false, load);
    meter.end_step();
    if (step < warmup) continue;
    mine["seconds"].push_back(watch.seconds());
    mine["cpu_s"].push_back(process_cpu_seconds() - cpu);
  }
  mine["pulses"] = pulses.around();
  mine["tensors"] = meter.peaks().steps;
  mine["resident"] = 1e6 * train::held_mb();
  return mine;
}

}  // namespace

int time_steps(const Arguments& arguments) {
  const Path file = arguments.text("job");
  const config::Job job = config::parse_job(read_file(file), file.string());
  const int warmup = arguments.number<int>("warmup"), steps = arguments.number<int>("steps");
  const int pulsing = arguments.number<int>("pulsing", 0);
  run_ranks_here(arguments.number<int>("ranks", 1), job, [&](comm::World& world) {
    Json ranks = Json::array();
    for (const std::string& text :
         world.exchange(measure(job, world, warmup, steps, pulsing).dump()))
      ranks.push_back(parse_json(text, "a rank"));
    if (world.rank() == 0) std::ofstream(arguments.text("json")) << ranks.dump();
  });
  return 0;
}

}  // namespace trireme::app
