#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/scratch/space.h"

namespace trireme::scratch {
namespace {

constexpr int kRingDepth = 16;
constexpr int kThreads = 4;

class FileScratch : public Space {
 public:
  explicit FileScratch(const FileOptions& options)
      : kernel_(options.kernel == nullptr ? own_kernel_ : *options.kernel) {
    place_.name = options.directory.string();
    file_.number = kernel_.open_unnamed(options.directory);
    if (file_.number < 0)
      fail(ErrorKind::kData,
           "{}: cannot make a scratch file: {}; choose a directory that exists and can be written",
           place_.name, std::strerror(-file_.number));
    const std::string cache = choose_direct(options.direct);
    describe_ = choose_engine(options) + ", " + cache;
  }

  ~FileScratch() override { end_transfers(); }

  std::string describe() const override { return describe_; }

 private:
  struct File {
    int number = -1;
    ~File() {
      if (number >= 0) ::close(number);
    }
  };

  std::string choose_direct(Direct direct) {
    if (direct == Direct::kOff) return "page cache";
    const int result = kernel_.set_direct(file_.number);
    place_.direct = result == 0;
    if (place_.direct) return "O_DIRECT";
    if (direct == Direct::kOn)
      fail(ErrorKind::kUsage, "{}: O_DIRECT does not work there: {}; use the page cache",
           place_.name, std::strerror(-result));
    return fmt::format("page cache (O_DIRECT: {})", std::strerror(-result));
  }

  std::string choose_engine(const FileOptions& options) {
    std::string instead;
    if (options.engine != Engine::kThreads) {
      int cause = 0;
      const int depth = options.depth > 0 ? options.depth : kRingDepth;
      if (auto ring = make_ring(kernel_, file_.number, place_, depth, cause)) {
        carry_with(std::move(ring));
        return "io_uring";
      }
      if (options.engine == Engine::kIoUring)
        fail(ErrorKind::kUsage, "io_uring is not available: {}; use threads", std::strerror(cause));
      instead = fmt::format(" (io_uring: {})", std::strerror(cause));
    }
    const auto call = [this](const Request& request) {
      return kernel_.completed(request, kernel_.transfer(file_.number, request));
    };
    carry_with(make_threads(call, place_, options.depth > 0 ? options.depth : kThreads));
    return "threads" + instead;
  }

  void make_real(std::int64_t bytes) override {
    int result = kernel_.allocate(file_.number, bytes);
    if (result == -EOPNOTSUPP) result = extend(bytes);
    if (result == 0) return;
    fail(ErrorKind::kData,
         "{}: scratch space needs {} bytes, {} are free there: {}; free some or choose another "
         "directory",
         place_.name, bytes, kernel_.free_bytes(file_.number), std::strerror(-result));
  }

  // File systems that cannot set space aside: that it is free now is all that can be asked.
  int extend(std::int64_t bytes) {
    if (kernel_.free_bytes(file_.number) < bytes) return -ENOSPC;
    if (::ftruncate(file_.number, bytes) != 0) return -errno;
    describe_ += ", space not reserved";
    return 0;
  }

  Kernel own_kernel_;
  Kernel& kernel_;
  Place place_;
  File file_;
  std::string describe_;
};

}  // namespace

std::unique_ptr<Scratch> open_file(const FileOptions& options) {
  return std::make_unique<FileScratch>(options);
}

}  // namespace trireme::scratch
