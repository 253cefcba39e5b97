// trireme: the front. It sees no LibTorch, so that it starts at once; trireme-worker computes.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/bus_error.h"
#include "apps/enter_worker.h"
#include "apps/guard.h"
#include "command_line.h"

namespace trireme::app {

int enter_worker(std::vector<std::string> words, std::vector<std::string> environment) {
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  ::execve(argv[0], argv.data(), envp.data());
  fail(ErrorKind::kUsage, "cannot run {}: {}", words.front(), std::strerror(errno));
}

}  // namespace trireme::app

int main(int argc, char** argv) {
  trireme::app::name_file_of_bus_errors();
  return trireme::app::guarded([&] { return trireme::app::run_command_line(argc, argv); });
}
