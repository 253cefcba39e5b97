#include "trireme/base/os/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/os/descriptor.h"

namespace trireme::os {
namespace {

constexpr std::size_t kMostHanded = 16;
constexpr char kGo = 'g';

// Every text with a zero behind it; how many are the command's comes first.
std::string encode(const Copy& copy) {
  std::string text = std::to_string(copy.command.size()) + '\0';
  for (const std::string& word : copy.command) text += word + '\0';
  for (const std::string& entry : copy.environment) text += entry + '\0';
  return text;
}

Copy decode(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size(); at += parts.back().size() + 1)
    parts.emplace_back(text.c_str() + at);
  TRIREME_CHECK(!parts.empty(), "an empty request for a copy");
  const auto words = parts.begin() + 1 + std::stol(parts.front());
  return {{parts.begin() + 1, words}, {words, parts.end()}};
}

std::string read_all(int file) {
  std::string text;
  char bytes[4096];
  for (ssize_t got;
       (got = ::pread(file, bytes, sizeof bytes, static_cast<off_t>(text.size()))) > 0;)
    text.append(bytes, static_cast<std::size_t>(got));
  return text;
}

// A request: the numbers that the handed descriptors shall have, and descriptors: of the command's text, of the channel
// by which the copy tells its process and hears that it may go on, and those handed.
struct Request {
  std::vector<Descriptor> descriptors;
  std::vector<int> numbers;
};

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * (kMostHanded + 2))];
};

bool send_request(int socket, const std::vector<int>& descriptors,
                  const std::vector<int>& numbers) {
  char some = 0;
  iovec data[2] = {{&some, 1}, {const_cast<int*>(numbers.data()), numbers.size() * sizeof(int)}};
  Control control{};
  msghdr message{};
  message.msg_iov = data;
  message.msg_iovlen = 2;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

std::optional<Request> next_request(int socket) {
  char some;
  std::array<int, kMostHanded> numbers{};
  iovec data[2] = {{&some, 1}, {numbers.data(), sizeof numbers}};
  Control control{};
  msghdr message{};
  message.msg_iov = data;
  message.msg_iovlen = 2;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  Request request;
  request.numbers.assign(numbers.begin(),
                         numbers.begin() + (got - 1) / static_cast<ssize_t>(sizeof(int)));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      request.descriptors.emplace_back(fd);
    }
  TRIREME_CHECK(request.descriptors.size() == request.numbers.size() + 2, "{} for {} numbers",
                request.descriptors.size(), request.numbers.size());
  return request;
}

// None of them may be in the way of another, nor of the numbers that were asked for.
void take_descriptors(Request& request, Descriptor& report) {
  int above = 2;
  for (const int number : request.numbers) above = std::max(above, number);
  for (Descriptor& descriptor : request.descriptors) {
    const int moved = ::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, above + 1);
    if (moved < 0) ::_Exit(EXIT_FAILURE);
    descriptor = Descriptor(moved);
  }
  report = std::move(request.descriptors[1]);
  for (std::size_t i = 0; i < request.numbers.size(); ++i)
    if (::dup2(request.descriptors[i + 2].get(), request.numbers[i]) < 0) ::_Exit(EXIT_FAILURE);
  request.descriptors.clear();
}

// The process between the server and the copy is gone as soon as it has started the copy.
void await_parent(pid_t between, pid_t parent) {
  for (pid_t now; (now = ::getppid()) != parent;) {
    if (now != between) ::_Exit(EXIT_FAILURE);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_Exit(EXIT_FAILURE);
}

Copy become_copy(int socket, Request request, pid_t between, pid_t parent) {
  await_parent(between, parent);
  ::setpgid(0, 0);
  ::close(socket);
  Copy copy = decode(read_all(request.descriptors[0].get()));
  Descriptor report;
  take_descriptors(request, report);
  const pid_t self = ::getpid();
  char answer = 0;
  if (::send(report.get(), &self, sizeof self, MSG_NOSIGNAL) != sizeof self ||
      ::recv(report.get(), &answer, 1, 0) != 1 || answer != kGo)
    ::_Exit(EXIT_FAILURE);
  return copy;
}

}  // namespace

std::optional<Copy> serve_forks(int socket) {
  using Entries = std::filesystem::directory_iterator;
  const auto threads = std::distance(Entries("/proc/self/task"), Entries());
  if (threads != 1)
    fail(ErrorKind::kUsage,
         "{} threads started while the program loaded, and a fork would copy their locks; ranks "
         "start as new processes",
         threads);
  const pid_t parent = ::getppid();
  const char ready = 0;
  if (::send(socket, &ready, 1, MSG_NOSIGNAL) != 1) return std::nullopt;
  while (std::optional<Request> request = next_request(socket)) {
    std::fflush(nullptr);  // else a copy would write it again
    const pid_t between = ::fork();
    if (between == 0) {
      const pid_t self = ::getpid();
      if (::fork() == 0) return become_copy(socket, std::move(*request), self, parent);
      ::_Exit(EXIT_SUCCESS);
    }
    if (between > 0) ::waitpid(between, nullptr, 0);
  }
  return std::nullopt;
}

bool is_ready(int socket) {
  char byte;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

std::optional<int> request_copy(int socket, const Copy& copy, const std::vector<Handed>& handed,
                                double patience_s) {
  TRIREME_CHECK(handed.size() <= kMostHanded, "{} descriptors", handed.size());
  const std::string text = encode(copy);
  const Descriptor memory(::memfd_create("trireme-copy", MFD_CLOEXEC));
  int ends[2];
  if (!memory.open() ||
      ::write(memory.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return std::nullopt;
  const Descriptor report(ends[0]);
  Descriptor theirs(ends[1]);
  std::vector<int> descriptors = {memory.get(), theirs.get()}, numbers;
  for (const Handed& one : handed) {
    descriptors.push_back(one.from);
    numbers.push_back(one.to);
  }
  if (!send_request(socket, descriptors, numbers)) return std::nullopt;
  theirs.close();
  pollfd wanted{.fd = report.get(), .events = POLLIN, .revents = 0};
  pid_t process = 0;
  if (::poll(&wanted, 1, static_cast<int>(1000 * patience_s)) != 1 ||
      ::recv(report.get(), &process, sizeof process, 0) != sizeof process ||
      ::send(report.get(), &kGo, 1, MSG_NOSIGNAL) != 1)
    return std::nullopt;
  return process;
}

}  // namespace trireme::os
