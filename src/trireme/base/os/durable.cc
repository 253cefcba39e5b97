#include "trireme/base/os/durable.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::os {
namespace {

// `result` of a call, if it is no error. Tries again what a signal has cut short.
template <typename Call>
auto done(const Path& path, const char* action, const Call& call) {
  auto result = call();
  while (result == -EINTR) result = call();
  if (result < 0)
    fail(ErrorKind::kData, "{}: cannot {}: {}", path.string(), action,
         std::strerror(static_cast<int>(-result)));
  return result;
}

}  // namespace

NewFile::NewFile(FileSystem& files, Path path) : files_(&files), path_(std::move(path)) {
  file_ = done(path_, "create", [&] { return files_->create(path_); });
}

NewFile::NewFile(NewFile&& other) noexcept
    : files_(other.files_),
      path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_) {}

NewFile::~NewFile() {
  if (file_ < 0) return;
  try {
    files_->close(file_);
    files_->unlink(path_);
  } catch (...) {  // the first failure is about to be reported
  }
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        done(path_, "write", [&] { return files_->pwrite(file_, bytes, size_); });
    if (written == 0)
      fail(ErrorKind::kData, "{}: cannot write: the disk accepts no more bytes", path_.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += written;
  }
}

void NewFile::finish() {
  // Once: after a failure the system may call the same pages clean.
  if (const int synced = files_->fsync(file_); synced < 0)
    fail(ErrorKind::kData, "{}: cannot fsync: {}", path_.string(), std::strerror(-synced));
  // Closed even where it fails.
  const int closed = files_->close(std::exchange(file_, -1));
  if (closed >= 0) return;
  files_->unlink(path_);
  fail(ErrorKind::kData, "{}: cannot close: {}", path_.string(), std::strerror(-closed));
}

void write_new_file(FileSystem& files, const Path& path, std::string_view bytes) {
  const std::span<const std::byte> wanted = std::as_bytes(std::span(bytes.data(), bytes.size()));
  NewFile file(files, path);
  file.write(wanted);
  file.finish();
  if (!std::ranges::equal(files.read(path)->bytes(), wanted))
    fail(ErrorKind::kData, "{}: holds other bytes than were written: the disk or its memory is bad",
         path.string());
}

void make_directory(FileSystem& files, const Path& path) {
  done(path, "make directory", [&] { return files.make_directory(path); });
}

void fsync_directory(FileSystem& files, const Path& path) {
  done(path, "fsync", [&] { return files.fsync_directory(path); });
}

void rename(FileSystem& files, const Path& from, const Path& to) {
  done(from, "rename", [&] { return files.rename(from, to); });
}

std::vector<std::string> list(FileSystem& files, const Path& path) {
  std::vector<std::string> names;
  done(path, "list", [&] { return files.list(path, names); });
  return names;
}

void remove_tree(FileSystem& files, const Path& path) {
  const Kind kind = files.status(path).kind;
  if (kind == Kind::kAbsent) return;
  if (kind != Kind::kDirectory) {
    done(path, "remove", [&] { return files.unlink(path); });
    return;
  }
  for (const std::string& name : list(files, path)) remove_tree(files, path / name);
  done(path, "remove", [&] { return files.remove_directory(path); });
}

void rename_and_remove(FileSystem& files, const Path& path, const Path& away) {
  remove_tree(files, away);
  rename(files, path, away);
  fsync_directory(files, path.parent_path());
  remove_tree(files, away);
}

}  // namespace trireme::os
