// Running the built programs as a user would, and looking at what they left behind.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/formats/scratch.h"
#include "trireme/base/hash.h"

namespace trireme::app {

struct Result {
  int exit_code = -1;  // negative: killed by that signal
  std::string out;
  std::string err;
};

// A directory in which programs run, with a cache of its own and an environment without launchers.
class Desk {
 public:
  // What chooses kernels, and so bits, is as for programs that tests start by themselves.
  Desk() {
    for (char** entry = environ; *entry != nullptr; ++entry)
      for (const std::string_view prefix :
           {"OPENBLAS_", "ATEN_", "DNNL_", "ONEDNN_", "OMP_", "MKL_"})
        if (const std::string text = *entry; text.starts_with(prefix))
          environment_[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }

  const Path& path() const { return scratch_.path(); }
  Path operator/(const std::string& name) const { return scratch_ / name; }
  Path write(const std::string& name, std::string_view bytes) const {
    return scratch_.write(name, bytes);
  }

  void set(const std::string& name, const std::string& value) { environment_[name] = value; }
  void clear(const std::string& name) { environment_.erase(name); }

  // Runs bin/trireme, or another program, with these arguments inside the desk.
  Result run(const std::vector<std::string>& arguments,
             const std::string& program = std::string(TRIREME_BIN_DIR) + "/trireme") const {
    const Path out = tools_ / "out", err = tools_ / "err";
    std::vector<std::string> words = {program}, variables;
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (const auto& [name, value] : environment_) variables.push_back(name + "=" + value);
    variables.push_back("XDG_CACHE_HOME=" + (tools_ / "cache").string());
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    ::posix_spawn_file_actions_addchdir_np(&actions, path().c_str());
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(out),
            read_file(err)};
  }

  // Every name on the desk with what stands behind it.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      const std::string name = entry.path().lexically_relative(path()).string();
      all[name] = entry.is_regular_file() ? hex64(hash64(read_file(entry.path()))) : "directory";
    }
    return all;
  }

 private:
  formats::Scratch scratch_;
  formats::Scratch tools_;
  std::map<std::string, std::string> environment_ = {
      {"PATH", "/usr/bin:/bin"}, {"HOME", "/nonexistent"}, {"TRIREME_NO_CALIBRATE", "1"}};
};

// One line that begins with "trireme: ".
inline void expect_one_line(const std::string& err) {
  EXPECT_TRUE(err.starts_with("trireme: ")) << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_LT(err.size(), 600u) << err;
  for (const char c : err)
    EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << err;
}

}  // namespace trireme::app
