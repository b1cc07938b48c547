// Reads control groups from files. Version 1 has a hierarchy for each resource; loft reads that of
// memory. Version 2 has one hierarchy for all resources. The code makes system calls directly,
// because libc's functions are cancellation points and some of them allocate.
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "base/bits.h"
#include "base/keep_errno.h"
#include "base/words.h"
#include "limits/group.h"

namespace loft::limits {

namespace {

// A path, built in place. A path that does not fit becomes empty and names no file.
class Path {
 public:
  Path& add(const char* text) {
    for (; *text != 0 && size_ < sizeof(text_) - 1; ++text) text_[size_++] = *text;
    cut(*text == 0 ? size_ : 0);
    return *this;
  }
  void cut(size_t size) {
    size_ = size;
    text_[size_] = 0;
  }
  // Removes the last name, but keeps at least `least` bytes. False if there was none to remove.
  bool cut_name(size_t least) {
    if (size_ <= least) return false;
    size_t size = size_ - 1;
    while (size > least && text_[size] != '/') --size;
    cut(size);
    return true;
  }
  size_t size() const { return size_; }
  const char* text() const { return text_; }

 private:
  char text_[2048] = {};
  size_t size_ = 0;
};

// A file, read byte by byte.
class File {
 public:
  explicit File(const char* path)
      : file_(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC)),
        error_(file_ < 0 ? errno : 0) {}
  ~File() {
    if (file_ >= 0) syscall(SYS_close, file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The file exists, or may exist, but could not be read this time.
  bool unread() const {
    return error_ != 0 && error_ != ENOENT && error_ != EACCES && error_ != EPERM;
  }
  bool opened() const { return file_ >= 0; }

  // The next byte, or -1 at the end.
  int get() {
    if (next_ == end_ && !fill()) return -1;
    return static_cast<unsigned char>(bytes_[next_++]);
  }

  // The next word of the line, or with `end` '\n' the rest of the line. A word that does not fit is
  // read as an empty one. False if nothing was left.
  bool word(char* text, size_t size, char end = ' ') {
    size_t length = 0;
    bool any = false;
    while (!line_ended_) {
      const int c = get();
      line_ended_ = c == '\n' || c < 0;
      if (line_ended_) break;
      any = true;  // "::" is a word too, an empty one
      if (c == end) break;
      if (length < size) text[length++] = static_cast<char>(c);
    }
    if (length == size) length = 0;
    text[length] = 0;
    return any;
  }

  // Moves to the next line. False at the end of the file.
  bool next_line() {
    for (int c = 0; !line_ended_;) {
      c = get();
      line_ended_ = c == '\n' || c < 0;
    }
    line_ended_ = false;
    return next_ != end_ || fill();
  }

 private:
  bool fill() {
    const long got = file_ < 0 ? 0 : syscall(SYS_read, file_, bytes_, sizeof(bytes_));
    if (got < 0) error_ = errno;
    next_ = 0;
    end_ = got <= 0 ? 0 : static_cast<size_t>(got);
    return end_ != 0;
  }

  long file_;
  int error_;  // the last error; 0 if there was none
  size_t next_ = 0;
  size_t end_ = 0;
  bool line_ended_ = false;
  char bytes_[4096];  // as much as one read of a file in /proc returns
};

// kNoLimit for any text that is not a number, such as "max".
size_t number(const char* text) {
  uint64_t n = 0;
  return parse_number(text, n) ? n : kNoLimit;
}

constexpr size_t kWord = 32;  // long enough for numbers and names of counters

// The number in a file of the folder. Sets `unread` if there may be a number but none was read.
size_t number_in(Path& folder, const char* name, bool& unread) {
  const size_t size = folder.size();
  File file(folder.add(name).text());
  folder.cut(size);
  char text[kWord];
  const size_t found = file.word(text, sizeof(text)) ? number(text) : kNoLimit;
  unread = unread || file.unread();
  return found;
}

// The file and counter names of each version.
struct Names {
  const char* everywhere;  // a file that every group has and no other folder has
  const char* max;
  const char* high;  // nullptr: this version has none
  const char* current;
  const char* droppable[3];  // counters in memory.stat that include the groups below
  const char* processors;    // nullptr: in another hierarchy, which loft does not read
};
constexpr Names kNames[] = {
    {"/memory.limit_in_bytes",
     "/memory.limit_in_bytes",
     nullptr,
     "/memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file", nullptr},
     nullptr},
    {"/cgroup.controllers",
     "/memory.max",
     "/memory.high",
     "/memory.current",
     {"active_file", "inactive_file", "slab_reclaimable"},
     "/cpu.max"},
};

// The mount points on nearly all systems: version 1; version 2; version 2 where both are in use.
// /proc/self/mountinfo gives certain answers, but reading it may take longer than all the rest.
constexpr const char* kUsualPlaces[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup",
                                        "/sys/fs/cgroup/unified"};

// In version 1, the largest number of whole pages means "no limit".
constexpr size_t kNoLimitOfVersion1 = size_t{1} << 62;

bool exists(Path& folder, const char* name) {
  const size_t size = folder.size();
  const long file = syscall(SYS_openat, AT_FDCWD, folder.add(name).text(), O_PATH | O_CLOEXEC);
  folder.cut(size);
  if (file >= 0) syscall(SYS_close, file);
  return file >= 0;
}

// Bytes of the group's memory that the system can drop.
size_t droppable(Path& folder, const Names& names) {
  const size_t size = folder.size();
  File file(folder.add("/memory.stat").text());
  folder.cut(size);
  size_t bytes = 0;
  do {
    char text[kWord];
    if (!file.word(text, sizeof(text))) break;
    for (const char* name : names.droppable) {
      if (name != nullptr && equal(text, name) && file.word(text, sizeof(text))) {
        bytes += number(text);
      }
    }
  } while (file.next_line());
  return bytes;
}

size_t used_of(Path& folder, const Names& names, size_t limit) {
  bool unread = false;  // ignored: if the file cannot be read, 0 bytes count as used this time
  const size_t current = number_in(folder, names.current, unread);
  if (current == kNoLimit || current <= limit / 2) return current == kNoLimit ? 0 : current;
  return current - least(current, droppable(folder, names));
}

// The file holds "QUOTA PERIOD", in microseconds of processor time. The quota may be "max".
size_t processors_of(Path& folder, const Names& names, bool& unread) {
  if (names.processors == nullptr) return kNoLimit;
  const size_t size = folder.size();
  File file(folder.add(names.processors).text());
  folder.cut(size);
  char quota[kWord];
  char period[kWord];
  const bool found = file.word(quota, sizeof(quota)) && file.word(period, sizeof(period));
  unread = unread || file.unread();
  if (!found) return kNoLimit;
  const size_t time = number(quota);
  const size_t each = number(period);
  return time == kNoLimit || each == 0 || each == kNoLimit ? kNoLimit : (time + each - 1) / each;
}

void look_at(Path& folder, const Names& names, Group& group, bool& unread) {
  group.processors = least(group.processors, processors_of(folder, names, unread));
  const size_t high = names.high == nullptr ? kNoLimit : number_in(folder, names.high, unread);
  size_t max = number_in(folder, names.max, unread);
  if (max >= kNoLimitOfVersion1) max = kNoLimit;
  group.high = least(group.high, high);
  group.max = least(group.max, max);
  const size_t limit = least(high, max);
  if (limit == kNoLimit) return;
  const size_t used = used_of(folder, names, limit);
  const auto share = [](size_t part, size_t whole) {
    return static_cast<double>(part) / static_cast<double>(most<size_t>(whole, 1));
  };
  if (group.limit != kNoLimit && share(used, limit) <= share(group.used, group.limit)) return;
  group.limit = limit;
  group.used = used;
}

}  // namespace

// A line reads "ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS".
void GroupReader::find_mounts() {
  File file(Path().add(root_).add("/proc/self/mountinfo").text());
  do {
    char text[kWord];
    for (int i = 0; i < 3; ++i) file.word(text, sizeof(text));
    char group[kLongestPath];
    char point[kLongestPath];
    file.word(group, sizeof(group));
    file.word(point, sizeof(point));
    bool more = true;
    do {
      more = file.word(text, sizeof(text));
    } while (more && !equal(text, "-"));
    if (!more || !file.word(text, sizeof(text))) continue;
    const unsigned version = equal(text, "cgroup2") ? 2 : equal(text, "cgroup") ? 1 : 0;
    if (version == 0) continue;
    if (version == 1) {
      char options[kLongestPath];
      file.word(text, sizeof(text));
      if (!file.word(options, sizeof(options)) || !lists(options, "memory")) continue;
    }
    Mount& mount = mounts_[version - 1];
    undo_escapes(group);
    undo_escapes(point);
    // Skipped: a version that is already found, a name that is too long, and a group above the part
    // of the hierarchy that the process may see.
    if (mount.found || group[0] == 0 || after("/..", group) != nullptr || point[0] == 0) continue;
    if (equal(group, "/")) group[0] = 0;
    Path path;
    path.add(root_).add(point);
    if (path.size() == 0 || path.size() >= sizeof(mount.path)) continue;
    __builtin_strcpy(mount.path, path.text());
    __builtin_strcpy(mount.group, group);
    mount.found = true;
  } while (file.next_line());
}

// A process cannot leave the groups, but it may become unable to read them: (a) it changes its
// root; (b) it loses access to /proc; or (c) the system can open no more files at the moment. The
// known limits then stay in force.
Group GroupReader::read(const Group& last) {
  const KeepErrno keep;
  Group group;
  if (look(group)) return group;
  group.high = least(group.high, last.high);
  group.max = least(group.max, last.max);
  group.processors = least(group.processors, last.processors);
  if (group.limit == kNoLimit) group.limit = last.limit;
  return group;
}

// False if there may be limits that could not be read.
bool GroupReader::look(Group& group) {
  File file(Path().add(root_).add("/proc/self/cgroup").text());
  if (!file.opened()) return false;
  bool all_read = true;
  bool any_first = false;  // a line of version 1 was seen; the system lists those first
  do {
    // A line reads "NUMBER:NAME,NAME,...:PATH", or in version 2 "0::PATH".
    char number_of[kWord];
    char controllers[kLongestPath];
    char path[kLongestPath];
    if (!file.word(number_of, sizeof(number_of), ':') ||
        !file.word(controllers, sizeof(controllers), ':') || !file.word(path, sizeof(path), '\n')) {
      continue;
    }
    const bool second = equal(number_of, "0") && controllers[0] == 0;
    any_first = any_first || !second;
    if (path[0] == 0 || (!second && !lists(controllers, "memory"))) continue;
    const char* usual = kUsualPlaces[!second ? 0 : any_first ? 2 : 1];
    if (!look_along(second ? 2 : 1, usual, path, group)) all_read = false;
  } while (file.next_line());
  return all_read && !file.unread();
}

// Reads the group at `path` and the groups that contain it, as far as they are visible.
bool GroupReader::look_along(unsigned version, const char* usual_place, const char* path,
                             Group& group) {
  if (after("/..", path) != nullptr) return true;
  if (equal(path, "/")) path = "";
  Path folder;
  folder.add(root_).add(usual_place);
  size_t top = folder.size();
  const bool usual = exists(folder.add(path), kNames[version - 1].everywhere);
  if (!usual) {
    if (!mounts_[0].found && !mounts_[1].found) find_mounts();
    const Mount& mount = mounts_[version - 1];
    if (!mount.found) return mounts_[2 - version].found;
    path = after(mount.group, path);
    if (path == nullptr || (*path != 0 && *path != '/')) return true;
    folder.cut(0);
    folder.add(mount.path);
    top = folder.size();
    folder.add(path);
  }
  bool unread = !usual && !exists(folder, "");
  do {
    look_at(folder, kNames[version - 1], group, unread);
  } while (folder.cut_name(top));
  return !unread;
}

}  // namespace loft::limits
