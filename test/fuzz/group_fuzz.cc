// What the system says of control groups, in both versions of the hierarchy: the files are made of
// the input, below a folder of the fuzzer's own, which stands for the root.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bytes.h"
#include "os/limits.h"
#include "os/os.h"

namespace {

namespace fs = std::filesystem;
using loft::limits::Group;
using loft::limits::Read;
using loft::os::kNoLimit;

// Where the texts of /proc may lead. An input that leads elsewhere finds no file.
const char* const kFolders[] = {
    "/sys/fs/cgroup",         "/sys/fs/cgroup/a",         "/sys/fs/cgroup/a/b",
    "/sys/fs/cgroup/memory",  "/sys/fs/cgroup/memory/a",  "/sys/fs/cgroup/memory/a/b",
    "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/a",
};
const char* const kNames[] = {
    "memory.max",  "memory.high",           "memory.current",
    "memory.stat", "memory.limit_in_bytes", "memory.usage_in_bytes",
};
constexpr size_t kFiles = 1 + std::size(kFolders) * std::size(kNames);
constexpr uint8_t kNextFile = 0xFF;

class Root {
 public:
  Root() {
    // In memory where there is such a folder.
    std::string name =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : fs::temp_directory_path().string();
    name += "/loft-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) fuzz::wrong("no folder: %d", errno);
    path_ = name;
    fs::create_directories(path_ + "/proc/self");
    for (const char* folder : kFolders) fs::create_directories(path_ + folder);
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const char* path() const { return path_.c_str(); }

  void put(size_t number, const std::string& text) {
    if (number >= kFiles) return;
    const std::string name = path_ + name_of(number);
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text.data(), text.size()) < 0) fuzz::wrong("no file: %d", errno);
    close(file);
    written_.push_back(name);
  }
  void clear() {
    for (const std::string& name : written_) unlink(name.c_str());
    written_.clear();
  }

 private:
  static std::string name_of(size_t number) {
    if (number == 0) return "/proc/self/cgroup";
    --number;
    return std::string(kFolders[number / std::size(kNames)]) + "/" +
           kNames[number % std::size(kNames)];
  }

  std::string path_;
  std::vector<std::string> written_;
};

Root& root() {
  static Root made;
  return made;
}

bool same(const Group& a, const Group& b) {
  return a.high == b.high && a.max == b.max && a.limit == b.limit && a.used == b.used;
}

void check(const Group& group) {
  const size_t least = std::min(group.high, group.max);
  if ((group.limit == kNoLimit) != (least == kNoLimit) || group.limit < least) {
    fuzz::wrong("limit %zu of high %zu and max %zu", group.limit, group.high, group.max);
  }
  if (group.limit == kNoLimit && group.used != 0) fuzz::wrong("%zu used of nothing", group.used);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  root();
  return 0;
}

// Files one behind another: the byte kNextFile, the file's number, its text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  bytes.text(kNextFile);
  while (!bytes.empty()) {
    const size_t number = bytes.byte();
    root().put(number, bytes.text(kNextFile));
  }
  errno = EDOM;
  const auto read = [](Read what, const Group& last = Group()) {
    return loft::limits::read_group(what, last, root().path());
  };
  const Group group = read(Read::kAll);
  check(group);
  if (!same(read(Read::kAll), group)) fuzz::wrong("another group at the second look");
  if (read(Read::kMax).max != group.max) fuzz::wrong("another limit where it is read alone");
  Group last;
  last.high = last.max = last.limit = 4096;
  // What is known holds on at most: nothing is looser than what was read.
  const Group after = read(Read::kAll, last);
  if (after.high > group.high || after.max > group.max) fuzz::wrong("looser by what was known");
  if (errno != EDOM) fuzz::wrong("errno changed to %d", errno);
  root().clear();
  return 0;
}
