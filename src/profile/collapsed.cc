#include <cerrno>
#include <new>

#include "base/text.h"
#include "files/output.h"
#include "os/os.h"
#include "profile/locations.h"
#include "profile/snapshot.h"

namespace loft::profile {

namespace {

class Lines {
 public:
  explicit Lines(int file) : file_(file) {}

  void put(const Text& text) {
    if (size_ + text.size() > sizeof(buffer_)) flush();
    __builtin_memcpy(buffer_ + size_, text.data(), text.size());
    size_ += text.size();
  }
  int flush() {
    if (error_ == 0) error_ = os::write_all(file_, buffer_, size_);
    size_ = 0;
    return error_;
  }

 private:
  int file_;
  int error_ = 0;
  size_t size_ = 0;
  char buffer_[4096];
};

Text frame_text(const Locations& locations, uintptr_t address) {
  Text text;
  const size_t id = locations.code_of(address);
  if (id == 0) return text << reinterpret_cast<const void*>(address);
  const Code& code = locations.code(id - 1);
  // Semicolons and line ends separate.
  for (const char* c = code.base_name(); *c != 0; ++c) {
    const char one[] = {*c == ';' || *c == '\n' ? '_' : *c, 0};
    text << one;
  }
  return text << "+" << reinterpret_cast<const void*>(address - code.begin + code.offset);
}

}  // namespace

int write_collapsed(int file, Moment moment) {
  const Site* const newest = newest_site();
  const Locations locations;
  if (!locations.is_complete()) return ENOMEM;
  void* const memory = files::borrow(sizeof(Lines));
  if (memory == nullptr) return ENOMEM;
  Lines& lines = *new (memory) Lines(file);
  for (const Site* site = newest; site != nullptr; site = site->older) {
    const uint64_t bytes = figures_of(*site, moment).used_bytes;
    if (bytes == 0) continue;
    if (site->depth == 0) lines.put(Text() << "no stack ");
    for (unsigned i = site->depth; i != 0; --i) {
      lines.put(frame_text(locations, site->frames()[i - 1]) << (i == 1 ? " " : ";"));
    }
    lines.put(Text() << bytes << "\n");
  }
  const int error = lines.flush();
  files::give_back(memory, sizeof(Lines));
  return error;
}

}  // namespace loft::profile
