// Reads control groups from files. Version 1 has a hierarchy for each resource; loft reads that of
// memory. Version 2 has one hierarchy for all resources. The system limits memory in one of them
// alone. The code makes system calls directly, because libc's functions are cancellation points and
// some of them allocate.
#include "os/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "base/text.h"

namespace loft::limits {

namespace {

// A path, built in place.
class Path {
 public:
  explicit Path(std::string_view start) { add(start); }
  Path& add(std::string_view text) {
    const size_t more = least(text.size(), sizeof(text_) - 1 - size_);
    __builtin_memcpy(text_ + size_, text.data(), more);
    cut(size_ + more);
    return *this;
  }
  void cut(size_t size) {
    size_ = size;
    text_[size_] = 0;
  }
  // Removes the last name, but keeps at least `least` bytes. False if there was none to remove.
  bool cut_name(size_t least) {
    if (size_ <= least) return false;
    do {
      --size_;
    } while (size_ > least && text_[size_] != '/');
    cut(size_);
    return true;
  }
  size_t size() const { return size_; }
  const char* text() const { return text_; }

 private:
  size_t size_ = 0;
  char text_[2048];
};

// A file of the folder, read at once: the system gives all of such a file to one read.
class File {
 public:
  LOFT_AT_LOAD LOFT_NOINLINE File(Path& folder, std::string_view name) {
    const size_t size = folder.size();
    const long file = syscall(SYS_openat, AT_FDCWD, folder.add(name).text(), O_RDONLY | O_CLOEXEC);
    folder.cut(size);
    const long got = file < 0 ? -1 : syscall(SYS_read, file, bytes_, sizeof(bytes_));
    const int error = got < 0 ? errno : 0;
    if (file >= 0) syscall(SYS_close, file);
    size_ = got < 0 ? 0 : static_cast<size_t>(got);
    found_ = error != ENOENT && error != EACCES && error != EPERM;
    unread_ = found_ && error != 0;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool found() const { return found_; }  // it exists, or may exist
  // That, but could not be read this time.
  bool unread() const { return unread_; }
  std::string_view text() const { return {bytes_, size_}; }

 private:
  size_t size_;
  bool found_;
  bool unread_;
  char bytes_[size_t{16} << 10];
};

// Takes what is in front of `end`, and `end`, from the text.
LOFT_AT_LOAD std::string_view take(std::string_view& text, char end) {
  const size_t size = least(text.find(end), text.size());
  const std::string_view taken(text.data(), size);
  text.remove_prefix(least(size + 1, text.size()));
  return taken;
}

bool lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (take(list, ',') == name) return true;
  }
  return false;
}

// kNone for any text that is not a number, such as "max".
size_t number(std::string_view text) {
  uint64_t n = 0;
  return parse_number(text, n) ? n : kNone;
}

LOFT_AT_LOAD size_t first_number(const File& file) {
  std::string_view text = file.text();
  text = take(text, '\n');
  return number(take(text, ' '));
}

// A version's hierarchy of memory: where it is mounted on all systems that are known, and the names
// of files and counters.
struct Hierarchy {
  const char* place;
  const char* max;
  const char* high;  // nullptr: this version has none
  const char* current;
  std::string_view droppable[3];  // counters in memory.stat that include the groups below
  bool limits_topmost;  // only a group, and not the whole machine, has the first of these files
};
constexpr Hierarchy kFirst = {"/sys/fs/cgroup/memory",
                              "/memory.limit_in_bytes",
                              nullptr,
                              "/memory.usage_in_bytes",
                              {"total_active_file", "total_inactive_file"},
                              false};
constexpr Hierarchy kSecond = {"/sys/fs/cgroup",
                               "/memory.max",
                               "/memory.high",
                               "/memory.current",
                               {"active_file", "inactive_file", "slab_reclaimable"},
                               true};

// In version 1, the largest number of whole pages means "no limit".
constexpr size_t kNoLimitOfVersion1 = size_t{1} << 62;

class Reader {
 public:
  Reader(Read what, const char* root) : what_(what), root_(root) {}

  // False if there may be limits that could not be read.
  LOFT_AT_LOAD bool look() {
    Path path(root_);
    const File file(path, "/proc/self/cgroup");
    bool any_first = false;  // a line of version 1 was seen; the system lists those first
    for (std::string_view rest = file.text(); !rest.empty(); any_first = true) {
      // "NUMBER:NAME,NAME,...:GROUP", or in version 2 "0::GROUP".
      std::string_view group = take(rest, '\n');
      take(group, ':');
      const std::string_view controllers = take(group, ':');
      if (controllers.empty()) return look_along(kSecond, any_first ? "/unified" : "", group);
      if (lists(controllers, "memory")) return look_along(kFirst, "", group);
    }
    return false;
  }

  Group found{};

 private:
  static constexpr size_t kLongestName = 1023;

  // Reads the group and those that contain it, as far as they are visible. In version 2 the topmost
  // of these may be a container's, which has limits. In version 1 it is read if the group is
  // nowhere else: a container sees its own at the mount.
  LOFT_AT_LOAD bool look_along(const Hierarchy& names, const char* below, std::string_view group) {
    // (Not starts_with: libstdc++'s may throw, as far as the compiler sees.)
    const std::string_view first(group.data(), least<size_t>(group.size(), 3));
    if (first == "/.." || group.size() > kLongestName) return false;
    Path folder(root_);
    const size_t top = folder.add(names.place).add(below).size();
    if (group != "/") folder.add(group);
    do {
      if (folder.size() > top || names.limits_topmost || !any_) look_at(folder, names);
    } while (folder.cut_name(top));
    return any_ && !unread_;
  }

  LOFT_AT_LOAD void look_at(Path& folder, const Hierarchy& names) {
    size_t max = limit_in(folder, names.max);
    if (max >= kNoLimitOfVersion1) max = kNone;
    found.max = least(found.max, max);
    if (what_ == Read::kMax) {
      found.limit = found.max;
      return;
    }
    const size_t high = names.high == nullptr ? kNone : limit_in(folder, names.high);
    found.high = least(found.high, high);
    const size_t limit = least(high, max);
    if (limit == kNone) return;
    const size_t used = used_of(folder, names, limit);
    const auto share = [](size_t part, size_t whole) {
      return static_cast<double>(part) / static_cast<double>(most<size_t>(whole, 1));
    };
    if (found.limit != kNone && share(used, limit) <= share(found.used, found.limit)) return;
    found.limit = limit;
    found.used = used;
  }

  LOFT_AT_LOAD size_t limit_in(Path& folder, const char* name) {
    const File file(folder, name);
    any_ = any_ || file.found();
    unread_ = unread_ || file.unread();
    return first_number(file);
  }

  // If the file cannot be read, 0 bytes count as used this time.
  static size_t used_of(Path& folder, const Hierarchy& names, size_t limit) {
    const size_t current = first_number(File(folder, names.current));
    if (current == kNone) return 0;
    return current <= limit / 2 ? current : current - least(current, droppable(folder, names));
  }

  // Bytes of the group's memory that the system can drop.
  static size_t droppable(Path& folder, const Hierarchy& names) {
    const File file(folder, "/memory.stat");
    size_t bytes = 0;
    for (std::string_view rest = file.text(); !rest.empty();) {
      std::string_view line = take(rest, '\n');
      const std::string_view counter = take(line, ' ');
      for (const std::string_view name : names.droppable) {
        if (!name.empty() && counter == name) bytes += number(line);
      }
    }
    return bytes;
  }

  const Read what_;
  const char* const root_;
  bool any_ = false;     // of the files that hold limits
  bool unread_ = false;  // one of them
};

}  // namespace

// A process cannot leave the groups, but it may become unable to read them: (a) it changes its
// root; (b) it loses access to /proc; or (c) the system can open no more files at the moment. The
// known limits then stay in force.
LOFT_AT_LOAD Group read_group(Read what, const Group& last, const char* root) {
  const KeepErrno keep;
  Reader reader(what, root);
  const bool is_whole = reader.look();
  Group found = reader.found;
  if (is_whole) return found;
  found.high = least(found.high, last.high);
  found.max = least(found.max, last.max);
  if (found.limit == kNone) found.limit = last.limit;
  return found;
}

}  // namespace loft::limits
