// trireme-worker: what computes. `trireme` starts it.
#include <ATen/Parallel.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/bus_error.h"
#include "apps/guard.h"
#include "apps/limits.h"
#include "apps/trireme/command_line.h"
#include "apps/worker/memory/memory.h"
#include "processes.h"
#include "subcommands.h"
#include "trireme/comm/gloo/gloo_world.h"

namespace trireme::app {
namespace {

int run(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  keep_freed_memory();
  comm::silence_c10d();
  // LibTorch's pool, which begins with a thread for each core, waits for ever for those that do not start.
  check_threads(static_cast<int>(std::thread::hardware_concurrency()) - 1);
  // LibTorch 1.13 starts with one thread whatever OMP_NUM_THREADS says.
  if (const char* threads = std::getenv("OMP_NUM_THREADS"); threads && std::atoi(threads) > 0)
    at::set_num_threads(std::atoi(threads));
  // Ranks write to others that may be gone: an error with a name, and no end by a signal. Other commands end with the
  // reader of their output, like any program.
  const bool island =
      std::find(argv + 1, argv + argc, std::string_view("--islands")) != argv + argc;
  if (is_process_of_a_world() || island || command == "doctor" || command == "islands")
    std::signal(SIGPIPE, SIG_IGN);
  const auto arguments = [&] { return Arguments(argc - 2, argv + 2); };
  if (command == "train") return train(arguments());
  if (command == "generate") return generate(arguments());
  if (command == "choices") return choices(arguments());
  if (command == "evaluate") return evaluate(arguments());
  if (command == "predict") return predict(arguments());
  if (command == "doctor") return doctor(arguments());
  if (command == "bench-calibrate") return bench_calibrate(arguments());
  if (command == "bench-collectives") return bench_collectives(arguments());
  if (command == "bench-context") return bench_context(arguments());
  if (command == "bench-kernels") return bench_kernels(arguments());
  if (command == "bench-memory") return bench_memory(arguments());
  if (command == "bench-pipeline") return bench_pipeline(arguments());
  if (command == "bench-recompute") return bench_recompute(arguments());
  if (command == "bench-step") return bench_step(arguments());
  if (command == "diff") return diff(arguments());
  if (command == "islands") return islands(arguments());
  if (command == "links") return links(arguments());
  if (command == "reduce-server") return reduce_server(arguments());
  if (command == "time-steps") return time_steps(arguments());
  if (command == "try-memory") return try_memory(arguments());
  fail(ErrorKind::kUsage, "trireme-worker is called by trireme; use that");
}

}  // namespace
}  // namespace trireme::app

int main(int argc, char** argv) {
  trireme::app::name_file_of_bus_errors();
  const int code = trireme::app::guarded([&] { return trireme::app::run(argc, argv); });
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return code;  // sanitizers report at exit
#else
  // LibTorch's destructors take its operators apart one by one, which takes a quarter of the CPU time of a start.
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}
