#include "trireme/elastic/local_launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::elastic {
namespace {

constexpr int kExecFailed = 127;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// SIGINT, SIGTERM and SIGCHLD arrive in a descriptor while this lives.
class Signals {
 public:
  Signals() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&wanted, signal);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    fd_ = Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    TRIREME_CHECK(fd_.get() >= 0, "signalfd: {}", std::strerror(errno));
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }

  int next() const {  // 0: none waits
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t before_{};
  Descriptor fd_;
};

struct Child {
  pid_t pid = 0;
  bool alive = false;
  bool killed = false;
  Descriptor output;       // ranks other than 0
  std::string unfinished;  // the line it is writing
};

std::vector<std::string> rank_environment(const Launch& launch, int rank) {
  const std::vector<std::pair<std::string, std::string>> own = {
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(launch.ranks)},
      {"LOCAL_WORLD_SIZE", std::to_string(launch.ranks)},
      {"MASTER_ADDR", launch.address},
      {"MASTER_PORT", std::to_string(launch.port)}};
  std::vector<std::string> all;
  for (const std::string& entry : launch.environment) {
    const std::string key = entry.substr(0, entry.find('='));
    if (std::none_of(own.begin(), own.end(), [&](const auto& pair) { return pair.first == key; }))
      all.push_back(entry);
  }
  for (const auto& [key, value] : own) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child: only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, char* const* environment, pid_t parent,
                         const sigset_t& mask, int input, int output, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // the terminal's Ctrl-C reaches the ranks through us, once
  if (::getppid() == parent && ::dup2(input, 0) >= 0 &&
      (output < 0 || (::dup2(output, 1) >= 0 && ::dup2(output, 2) >= 0))) {
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    ::execve(arguments[0], arguments, environment);
  }
  const int cause = errno;
  (void)!::write(report, &cause, sizeof cause);
  ::_Exit(kExecFailed);
}

Child start(const Launch& launch, int rank, const Signals& signals) {
  std::vector<std::string> arguments = launch.command;
  std::vector<std::string> environment = rank_environment(launch, rank);
  const std::vector<char*> argv = c_strings(arguments), envp = c_strings(environment);

  int report[2], output[2] = {-1, -1};
  TRIREME_CHECK(::pipe2(report, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  Descriptor report_out(report[0]), report_in(report[1]);
  if (rank != 0) TRIREME_CHECK(::pipe2(output, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  Descriptor output_out(output[0]), output_in(output[1]);
  Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    become(argv.data(), envp.data(), parent, signals.before(), input.get(), output_in.get(),
           report_in.get());
  if (pid < 0)
    fail(ErrorKind::kUsage, "cannot start rank {} of {}: {}; start fewer", rank, launch.ranks,
         std::strerror(errno));
  report_in.close();
  int cause = 0;
  if (::read(report_out.get(), &cause, sizeof cause) == sizeof cause) {
    ::waitpid(pid, nullptr, 0);
    fail(ErrorKind::kUsage, "cannot run {}: {}", launch.command.front(), std::strerror(cause));
  }
  return {pid, true, false, std::move(output_out), {}};
}

class Host {
 public:
  explicit Host(const Launch& launch) : launch_(launch) {
    for (int rank = 0; rank < launch.ranks; ++rank) try {
        children_.push_back(start(launch, rank, signals_));
      } catch (...) {
        kill_all(SIGKILL);
        while (alive()) reap(true);
        throw;
      }
  }

  Outcome watch() {
    while (alive()) {
      wait();
      for (int signal; (signal = signals_.next()) != 0;)
        if (signal != SIGCHLD) interrupted_by(signal);
      reap(false);
      end_grace();
    }
    for (std::size_t k = 1; k < children_.size(); ++k) forward_output(children_[k], k, true);
    if (second_interrupt_)
      return {128 + interrupt_, 0, "stopped at once by a second interrupt, without saving"};
    return judge(ends_, interrupt_);
  }

 private:
  bool alive() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.alive; });
  }

  void kill_all(int signal) {
    for (Child& child : children_)
      if (child.alive) ::kill(child.pid, signal);
  }

  void interrupted_by(int signal) {
    if (interrupt_ == 0) {
      interrupt_ = signal;
      kill_all(signal);
    } else if (signal == SIGINT) {
      second_interrupt_ = true;
      kill_all(SIGKILL);
    }
  }

  void wait() {
    std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
    std::vector<std::size_t> owner = {0};
    for (std::size_t k = 1; k < children_.size(); ++k)
      if (children_[k].output.get() >= 0) {
        watched.push_back({children_[k].output.get(), POLLIN, 0});
        owner.push_back(k);
      }
    int timeout_ms = -1;
    if (failed_at_)
      timeout_ms = std::max(
          0, static_cast<int>(1000 * (*failed_at_ + launch_.grace_s - clock_.seconds())) + 1);
    ::poll(watched.data(), watched.size(), graceless_ ? -1 : timeout_ms);
    for (std::size_t i = 1; i < watched.size(); ++i)
      if (watched[i].revents != 0) forward_output(children_[owner[i]], owner[i], false);
  }

  // Takes what there is, or with `all` everything up to the end.
  void forward_output(Child& child, std::size_t rank, bool all) {
    char buffer[4096];
    while (child.output.get() >= 0) {
      pollfd ready{child.output.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      const ssize_t got = ::read(child.output.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        child.output.close();
      else
        child.unfinished.append(buffer, static_cast<std::size_t>(got));
      if (!all) break;
    }
    std::string& text = child.unfinished;
    for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
      tell(rank, std::string_view(text).substr(0, end));
    if (all && !text.empty()) tell(rank, std::exchange(text, {}));
  }

  void tell(std::size_t rank, std::string_view line) {
    if (launch_.on_line) launch_.on_line(static_cast<int>(rank), line);
  }

  void reap(bool block) {
    for (std::size_t k = 0; k < children_.size(); ++k) {
      Child& child = children_[k];
      int status = 0;
      if (!child.alive || ::waitpid(child.pid, &status, block ? 0 : WNOHANG) != child.pid) continue;
      child.alive = false;
      const RankEnd end{static_cast<int>(k), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                        WIFSIGNALED(status) ? WTERMSIG(status) : 0, child.killed, clock_.seconds()};
      ends_.push_back(end);
      if (is_failure(end, interrupt_) && !failed_at_) failed_at_ = clock_.seconds();
    }
  }

  void end_grace() {
    if (!failed_at_ || graceless_ || clock_.seconds() < *failed_at_ + launch_.grace_s) return;
    graceless_ = true;
    for (Child& child : children_) child.killed = child.alive;
    kill_all(SIGKILL);
  }

  const Launch& launch_;
  Stopwatch clock_;
  Signals signals_;
  std::vector<Child> children_;
  std::vector<RankEnd> ends_;
  int interrupt_ = 0;
  bool second_interrupt_ = false;
  bool graceless_ = false;
  std::optional<double> failed_at_;
};

}  // namespace

Outcome run(const Launch& launch) {
  TRIREME_CHECK(launch.ranks >= 1 && !launch.command.empty(), "{} ranks", launch.ranks);
  return Host(launch).watch();
}

}  // namespace trireme::elastic
