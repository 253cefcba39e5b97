// trireme-worker time-steps: what steps of a job take on random tokens, and its processes of memory.
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "memory.h"
#include "processes.h"
#include "pulse.h"
#include "subcommands.h"
#include "trireme/base/clock.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/train/job_session.h"
#include "trireme/train/machine.h"
#include "trireme/train/memory_meter.h"
#include "trireme/train/samples.h"

namespace trireme::app {
namespace {

// Of this process, by all its threads.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of the first `pulsing` ranks, at once, between all steps: each has with it the mean of the pulses around it.
Json measure(const config::Job& job, comm::World& world, int warmup, int steps, int pulsing) {
  train::JobSession session(job, world);
  train::MemoryMeter meter(&charged_here(), session.device());
  const train::JobSession::Load load = train::load_of(job, job.run.micro_batch);
  const Pulse pulse(job.precision.compute);
  const auto pulse_now = [&] {
    world.exchange("ready");
    return world.rank() < pulsing ? pulse.seconds() : 0;
  };
  Json mine;
  double before = 0;
  for (int step = 0; step < warmup + steps; ++step) {
    if (step == warmup) before = pulse_now();
    world.exchange("ready");
    const Stopwatch watch;
    const double cpu = cpu_seconds();
    meter.begin_step();
    session.train(step, false, load);
    meter.end_step();
    if (step < warmup) continue;
    mine["seconds"].push_back(watch.seconds());
    mine["cpu_s"].push_back(cpu_seconds() - cpu);
    const double after = pulse_now();
    mine["pulses"].push_back((before + after) / 2);
    before = after;
  }
  mine["tensors"] = meter.peaks().steps;
  mine["resident"] = 1e6 * train::peak_resident_mb();
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
