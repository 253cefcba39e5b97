#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/base/os/processes.h"
#include "trireme/base/os/stop.h"

namespace trireme::os {
namespace {

constexpr int kExecFailed = 127;

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Start {
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  sigset_t mask;
  int input, output, report;
  const std::vector<int>* keep;
};

// In the child: only calls that are safe after fork.
[[noreturn]] void become(const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  restore_stop_signals();
  for (const int fd : *start.keep) ::fcntl(fd, F_SETFD, 0);
  if (::getppid() == start.parent && ::dup2(start.input, 0) >= 0 &&
      (start.output < 0 || (::dup2(start.output, 1) >= 0 && ::dup2(start.output, 2) >= 0))) {
    ::pthread_sigmask(SIG_SETMASK, &start.mask, nullptr);
    ::execve(start.arguments[0], start.arguments, start.environment);
  }
  const int cause = errno;
  ::signal(SIGPIPE, SIG_IGN);  // of a parent that has not waited for it
  (void)!::write(start.report, &cause, sizeof cause);
  ::_Exit(kExecFailed);
}

struct Pipe {
  Descriptor out, in;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail(ErrorKind::kUsage,
         "cannot create a pipe for a process: {}; start fewer processes, or raise ulimit -n",
         std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class Children final : public Processes {
 public:
  Children() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    sigset_t wanted = stop_signals();
    ::sigaddset(&wanted, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    signals_ = Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!epoll_.open() || !signals_.open())
      fail(ErrorKind::kUsage,
           "cannot watch processes, as there is no file descriptor: {}; raise ulimit -n",
           std::strerror(errno));
    watch(signals_.get());
  }
  ~Children() override {
    for (const auto& [pid, child] : children_) ::kill(pid, SIGKILL);
    for (const auto& [pid, child] : children_) ::waitpid(pid, nullptr, 0);
    // What has not been taken must not reach us by other ways now.
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int spawn(const Spawn& what) override;
  void signal(int pid, int number) override {
    if (children_.contains(pid)) ::kill(pid, number);
  }
  std::vector<ProcessEvent> take() override;
  int descriptor() const override { return epoll_.get(); }

 private:
  struct Child {
    Descriptor output;
    std::string unfinished{};  // the line it is writing
  };

  pid_t start(const Spawn& what, const Pipe& output) const;

  void watch(int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0)
      fail(ErrorKind::kUsage, "cannot watch a process: {}; start fewer", std::strerror(errno));
  }
  void take_lines(int pid, Child& child, bool ended, std::vector<ProcessEvent>& events);

  sigset_t before_{};
  Descriptor epoll_, signals_;
  std::map<int, Child> children_;
};

int Children::spawn(const Spawn& what) {
  Pipe output = what.capture ? make_pipe() : Pipe{Descriptor(), Descriptor()};
  // First: what has begun must not be lost for what fails after it.
  if (what.capture) {
    ::fcntl(output.out.get(), F_SETFL, O_NONBLOCK);
    watch(output.out.get());
  }
  const pid_t pid = start(what, output);
  children_.emplace(pid, Child{std::move(output.out)});
  return pid;
}

pid_t Children::start(const Spawn& what, const Pipe& output) const {
  std::vector<std::string> arguments = what.command, environment = what.environment;
  const std::vector<char*> argv = c_strings(arguments), envp = c_strings(environment);
  Pipe report = make_pipe();
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.open())
    fail(ErrorKind::kUsage, "cannot start {}: /dev/null: {}; start fewer, or raise ulimit -n",
         what.command.front(), std::strerror(errno));
  const Start start{argv.data(), envp.data(),     ::getpid(),      before_,
                    input.get(), output.in.get(), report.in.get(), &what.keep};
  const pid_t pid = ::fork();
  if (pid == 0) become(start);
  if (pid < 0)
    fail(ErrorKind::kUsage,
         "cannot start {}: {}; start fewer processes, or raise ulimit -u and the container's limit "
         "of processes",
         what.command.front(), std::strerror(errno));
  report.in.close();
  // One that is stopped before it becomes its program must not stop us: it is a child like any other that is stopped.
  constexpr int kPatience_ms = 1000;
  pollfd begun{.fd = report.out.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  do ready = ::poll(&begun, 1, kPatience_ms);
  while (ready < 0 && errno == EINTR);
  if (ready == 0) return pid;
  int cause = 0;
  ssize_t told = 0;
  do told = ::read(report.out.get(), &cause, sizeof cause);
  while (told < 0 && errno == EINTR);
  if (told == sizeof cause) {
    ::waitpid(pid, nullptr, 0);
    fail(ErrorKind::kUsage, "cannot run {}: {}", what.command.front(), std::strerror(cause));
  }
  return pid;
}

// A child that writes all the time must not keep us from everything else, nor one that ends no line fill our memory.
void Children::take_lines(int pid, Child& child, bool ended, std::vector<ProcessEvent>& events) {
  constexpr std::size_t kAtATime = 64 << 10, kLongestLine = 64 << 10;
  char buffer[4096];
  std::string& text = child.unfinished;
  for (std::size_t taken = 0; child.output.open() && (ended || taken < kAtATime);) {
    const ssize_t got = ::read(child.output.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      child.output.close();
      break;
    }
    taken += static_cast<std::size_t>(got);
    text.append(buffer, static_cast<std::size_t>(got));
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    events.push_back({ProcessEvent::Kind::kLine, pid, text.substr(begin, end - begin)});
  text.erase(0, begin);
  if (text.size() < kLongestLine) return;
  events.push_back({ProcessEvent::Kind::kLine, pid, std::move(text)});
  text.clear();
}

std::vector<ProcessEvent> Children::take() {
  std::vector<ProcessEvent> events;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    if (const int number = static_cast<int>(info.ssi_signo); number != SIGCHLD)
      events.push_back({.kind = ProcessEvent::Kind::kSignal, .signal = number});
  for (auto it = children_.begin(); it != children_.end();) {
    auto& [pid, child] = *it;
    int status = 0;
    const bool ended = ::waitpid(pid, &status, WNOHANG) == pid;
    take_lines(pid, child, ended, events);
    if (!ended) {
      ++it;
      continue;
    }
    if (!child.unfinished.empty())
      events.push_back({ProcessEvent::Kind::kLine, pid, child.unfinished});
    events.push_back({.kind = ProcessEvent::Kind::kEnded,
                      .pid = pid,
                      .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                      .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0});
    it = children_.erase(it);
  }
  return events;
}

}  // namespace

std::unique_ptr<Processes> make_processes() { return std::make_unique<Children>(); }

}  // namespace trireme::os
