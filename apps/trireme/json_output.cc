#include "json_output.h"

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/fs.h"

namespace trireme::app {
namespace {

constexpr char kOption[] = "--json";
constexpr char kStdout[] = "-";

// A new file that goes with this object.
class TemporaryFile {
 public:
  TemporaryFile()
      : name_((std::filesystem::temp_directory_path() / "trireme-").string() +
              std::string(6, 'X')) {  // which mkstemp fills
    const int fd = ::mkstemp(name_.data());
    if (fd < 0)
      fail(ErrorKind::kUsage, "--json -: cannot make {}: {}", name_, std::strerror(errno));
    ::close(fd);
  }
  // A child that ends with an error leaves it.
  ~TemporaryFile() {
    if (::getpid() == owner_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  pid_t owner_ = ::getpid();
};

int exit_code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void add_json_option(CLI::App& app, std::string& file) {
  app.add_option(
         kOption, file,
         "File for the results as JSON in addition; -: JSON to stdout, other output to stderr")
      ->check([](const std::string& name) {
        return name.size() > 1 && name.starts_with('-') ? "needs a file name or -, not " + name
                                                        : std::string();
      })
      ->type_name("FILE");
}

void write_json(const std::string& file, const Json& json) {
  if (!file.empty()) write_file_synced(file, json.dump(1) + "\n");
}

int run_with_json(CLI::App& app, const std::function<int()>& run) {
  CLI::Option* const option = app.get_option_no_throw(kOption);
  if (option == nullptr || option->count() == 0 || option->results().front() != kStdout)
    return run();
  // A child runs the command, which may become the worker; its stdout is ours afterwards.
  const TemporaryFile file;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::kUsage, "--json -: cannot fork: {}", std::strerror(errno));
  if (child == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    option->clear();
    option->add_result(file.name());
    option->run_callback();
    const int code = run();
    std::fflush(nullptr);
    ::_exit(code);
  }
  const int code = exit_code_of(child);
  const std::string text = read_file(file.name());
  std::fwrite(text.data(), 1, text.size(), stdout);
  return code;
}

}  // namespace trireme::app
