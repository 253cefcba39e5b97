// The ranks of this process: one of a world of processes that torchrun or `trireme train --nproc` describes
// in the environment, or threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/comm/algorithm/links.h"
#include "trireme/comm/connect/processes.h"
#include "trireme/config/job.h"

namespace trireme::app {

// The variable's value, or `missing` where it is unset or empty.
std::string variable(const char* name, const char* missing);

// As comm::connect_processes, by the route that TRIREME_TRANSPORT names: best (the default), shm, gloo; ranks
// with different TRIREME_HOST share no memory. For CUDA as comm::connect_nccl, with the device of
// LOCAL_RANK.
std::unique_ptr<comm::World> connect_processes(
    double timeout_s, config::Device device = config::Device::kCpu,
    const std::function<void(const char*)>& on_stage = {});

// As comm::measure_links(), in the place that the environment names.
algorithm::Links measure_links(double seconds);

// As comm::serve_reductions(), in the place that the environment names.
void serve_reductions(double rate);

// Informs the agent, if one has started this process, that a rank has arrived: a rank that ends from now on has left
// the others alone.
void claim_flight_record();

// Whether this process is one rank of several processes.
bool is_process_of_a_world();

// Runs body(world) as the rank that the environment describes, else as `threads` ranks in threads; each
// computes with OMP_NUM_THREADS threads, or one. A rank that throws aborts the world. `on_stage` as in
// comm::RendezvousConfig.
void run_ranks_here(int threads, const config::Job& job,
                    const std::function<void(comm::World&)>& body,
                    const std::function<void(const char*)>& on_stage = {});

}  // namespace trireme::app
