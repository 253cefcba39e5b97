// Programs that go on while a test does something, and `trireme launch` beside workers that are scripts.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "tests/apps/program.h"
#include "trireme/base/os/stop.h"
#include "trireme/base/ports.h"

namespace trireme::app {

// A run of the program that goes on while the test does something; killed with the test.
class Running {
 public:
  Running(const Path& desk, const std::string& program, std::vector<std::string> words,
          const std::string& name = "launch",
          const std::map<std::string, std::string>& environment = {},
          const std::function<void()>& in_child = {})
      : desk_(desk), name_(name) {
    words.insert(words.begin(), program);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open((desk / (name + ".out")).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = ::open((desk / (name + ".err")).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::setenv("XDG_CACHE_HOME", (desk / "cache").c_str(), 1);
    ::setenv("TRIREME_NO_CALIBRATE", "1", 1);
    for (const auto& [key, value] : environment) ::setenv(key.c_str(), value.c_str(), 1);
    os::restore_stop_signals();  // tests may run in the background or under nohup
    if (in_child) in_child();
    if (::chdir(desk.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  ~Running() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  Result wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            read_file(desk_ / (name_ + ".out")), read_file(desk_ / (name_ + ".err"))};
  }

 private:
  Path desk_;
  std::string name_;
  pid_t pid_ = 0;
};

// Waits for what must come; a minute is for machines that do much else.
inline bool soon(const std::function<bool()>& there) {
  for (int i = 0; i < 6000; ++i) {
    if (there()) return true;
    ::usleep(10'000);
  }
  return false;
}

// The front beside a worker that is a script: it has torchrun's variables and TRIREME_GENERATION.
class Launched : public ::testing::Test {
 protected:
  Launched() {
    desk_.write("text.txt", std::string(4000, 'x') + "\n");
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "run: {steps: 6, global_batch: 8, micro_batch: 2}\n");
    std::filesystem::create_directories(desk_ / "bin");
    std::filesystem::copy_file(std::string(TRIREME_BIN_DIR) + "/trireme", desk_ / "bin/trireme");
  }

  void worker(const std::string& script) {
    const Path file = desk_.write("bin/trireme-worker", "#!/bin/sh\n" + script + "\n");
    ::chmod(file.c_str(), 0700);
  }
  std::string front() const { return (desk_ / "bin/trireme").string(); }
  std::vector<std::string> words(std::vector<std::string> options) const {
    options.insert(options.begin(), "launch");
    for (const char* word : {"--", "train", "job.yaml", "--out", "run"}) options.push_back(word);
    return options;
  }
  Result launch(const std::vector<std::string>& options) const {
    return desk_.run(words(options), front());
  }

  Desk desk_;
};

// Several agents of this machine, each as if on a host of its own, with one rank that writes down its world.
class Hosts : public Launched {
 protected:
  Hosts() : endpoint_("127.0.0.1:" + std::to_string(free_port())) {
    token("token", "the token of these hosts");
    worker(
        "trap 'exit 143' TERM\n"
        "echo \"$TRIREME_GENERATION ${RANK:-0} of ${WORLD_SIZE:-1}\" > now-${RANK:-0}.new; mv "
        "now-${RANK:-0}.new "
        "now-${RANK:-0}\n"
        "until [ -e finish ]; do sleep 0.05; done");
  }

  void token(const std::string& name, const std::string& text) const {
    ::chmod(desk_.write(name, text).c_str(), 0600);
  }
  std::unique_ptr<Running> agent(const std::string& name, std::vector<std::string> more = {},
                                 const std::string& token = "token") const {
    more.insert(more.end(), {"--rdzv-endpoint", endpoint_, "--token-file", token});
    return std::make_unique<Running>(desk_.path(), front(), words(more), name);
  }
  // A newer generation than before in which this rank has this world. A machine that is busy for
  // seconds may have had one more between them.
  ::testing::AssertionResult comes(const std::string& rank, int world) {
    const bool came = soon([&] {
      const Path file = desk_ / ("now-" + rank);
      if (!std::filesystem::exists(file)) return false;
      int generation = 0, number = 0, size = 0;
      std::string of;
      std::istringstream(read_file(file)) >> generation >> number >> of >> size;
      if (size != world || generation <= seen_[rank]) return false;
      seen_[rank] = generation;
      return true;
    });
    if (came) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << read_file(desk_ / "first.err");
  }

  std::string endpoint_;
  std::map<std::string, int> seen_;
};

}  // namespace trireme::app
