// The subcommands of `trireme-worker`. Each returns an exit code.
#pragma once

#include "arguments.h"

namespace trireme::app {

int train(const Arguments& arguments);
int generate(const Arguments& arguments);
int doctor(const Arguments& arguments);
int bench_calibrate(const Arguments& arguments);
int bench_collectives(const Arguments& arguments);
int bench_context(const Arguments& arguments);
int bench_memory(const Arguments& arguments);
int bench_kernels(const Arguments& arguments);
int bench_pipeline(const Arguments& arguments);
int bench_recompute(const Arguments& arguments);
int bench_step(const Arguments& arguments);
int choices(const Arguments& arguments);
int diff(const Arguments& arguments);
int evaluate(const Arguments& arguments);
int links(const Arguments& arguments);
int predict(const Arguments& arguments);
int islands(const Arguments& arguments);
int reduce_server(const Arguments& arguments);
int time_steps(const Arguments& arguments);
int try_memory(const Arguments& arguments);

}  // namespace trireme::app
