// The encoder of github.com/google/pprof's profile.proto.
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include <initializer_list>

#include "base/raw_file.h"
#include "inspect/forms.h"
#include "inspect/snapshot.h"

namespace loft::inspect {

namespace {

// The strings of the table that every profile begins with.
enum String : uint64_t {
  kEmpty,
  kAllocObjects,
  kCount,
  kAllocSpace,
  kBytes,
  kInuseObjects,
  kInuseSpace,
  kSpace,
  kLifetime,
  kMicroseconds,
  kStrings
};
constexpr const char* kTable[kStrings] = {"",         "alloc_objects", "count",       "alloc_space",
                                          "bytes",    "inuse_objects", "inuse_space", "space",
                                          "lifetime", "microseconds"};

// The wire format. Without a sink it counts bytes.
class Proto {
 public:
  explicit Proto(Sink* sink) : sink_(sink) {}

  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) put(static_cast<uint8_t>(value | 128));
    put(static_cast<uint8_t>(value));
  }
  void number(unsigned field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  // Of the fields from 1 on.
  void numbers(std::initializer_list<uint64_t> values) {
    unsigned field = 0;
    for (const uint64_t value : values) number(++field, value);
  }
  void text(unsigned field, const char* from) {
    message(field, [from](Proto& inner) {
      for (const char* c = from; *c != 0; ++c) inner.put(static_cast<uint8_t>(*c));
    });
  }
  // What `write` writes, twice: its length comes first.
  template <class Write>
  void message(unsigned field, Write write) {
    Proto counts(nullptr);
    write(counts);
    varint(field << 3 | 2);
    varint(counts.size_);
    write(*this);
  }
  void message(unsigned field, std::initializer_list<uint64_t> values) {
    message(field, [values](Proto& inner) { inner.numbers(values); });
  }

 private:
  void put(uint8_t byte) {
    ++size_;
    if (sink_ != nullptr) sink_->put(&byte, 1);
  }

  Sink* sink_;
  size_t size_ = 0;
};

void put_types(Proto& whole, uint64_t mean_bytes) {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  whole.message(1, {kAllocObjects, kCount});
  whole.message(1, {kAllocSpace, kBytes});
  whole.message(1, {kInuseObjects, kCount});
  whole.message(1, {kInuseSpace, kBytes});
  whole.message(11, {kSpace, kBytes});
  whole.number(12, mean_bytes);
  whole.number(14, kInuseSpace);
  whole.number(
      9, static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
}

// A label has a number with a unit, and no text.
void put_sample(Proto& sample, const Locations& locations, const profile::Site& site,
                const Figures& figures, uint64_t lifetime) {
  sample.message(1, [&](Proto& ids) {
    for (unsigned i = 0; i < site.depth; ++i) ids.varint(locations.id_of(site.frames()[i]));
  });
  sample.message(2, [&](Proto& values) {
    values.varint(figures.allocated_objects);
    values.varint(figures.allocated_bytes);
    values.varint(figures.used_objects);
    values.varint(figures.used_bytes);
  });
  if (figures.allocated_objects != 0) {
    sample.message(3,
                   {kBytes, kEmpty, figures.allocated_bytes / figures.allocated_objects, kBytes});
  }
  if (lifetime != 0) sample.message(3, {kLifetime, kEmpty, lifetime, kMicroseconds});
}

// The strings follow those of kTable: a name and a build id for each mapping.
void put_mapping(Proto& whole, const Code& code, size_t i) {
  whole.message(3,
                {i + 1, code.begin, code.end, code.offset, kStrings + 2 * i, kStrings + 2 * i + 1});
}

void put_location(Proto& whole, const Locations& locations, size_t slot) {
  const uintptr_t address = locations.address_at(slot);
  // Within the call, not behind it: that may be another line's.
  whole.message(4, {slot + 1, locations.code_of(address), address - 1});
}

// The process's command line, which says whose profile this is; cut where it is long.
class Command {
 public:
  Command() {
    const int file = raw::open_file("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const ssize_t got = raw::read_file_at(file, text_, sizeof(text_) - 1, 0);
    raw::close_file(file);
    // Each argument ends with a 0.
    for (ssize_t i = 0; i < got - 1; ++i) {
      if (static_cast<unsigned char>(text_[i]) < ' ') text_[i] = ' ';
    }
  }
  bool is_there() const { return text_[0] != 0; }
  const char* text() const { return text_; }

 private:
  char text_[512] = {};
};

void put_strings(Proto& whole, const Locations& locations, const Command& command) {
  for (const char* text : kTable) whole.text(6, text);
  for (size_t i = 0; i < locations.code_count(); ++i) {
    const Code& code = locations.code(i);
    char id[2 * sizeof(code.build_id) + 1] = {};
    for (size_t n = 0; n < code.build_id_bytes; ++n) {
      id[2 * n] = "0123456789abcdef"[code.build_id[n] >> 4];
      id[2 * n + 1] = "0123456789abcdef"[code.build_id[n] & 15];
    }
    whole.text(6, code.name);
    whole.text(6, id);
  }
  if (command.is_there()) whole.text(6, command.text());
}

}  // namespace

void write_pprof(Sink& sink, const Source& source, const Locations& locations) {
  Proto whole(&sink);
  put_types(whole, source.mean_bytes);
  for (const profile::Site* site = source.newest; site != nullptr; site = site->older) {
    // Once: threads that allocate meanwhile change them.
    const Figures figures = figures_of(*site, source.moment);
    const uint64_t lifetime = mean_lifetime_us(*site);
    whole.message(2,
                  [&](Proto& sample) { put_sample(sample, locations, *site, figures, lifetime); });
  }
  for (size_t i = 0; i < locations.code_count(); ++i) put_mapping(whole, locations.code(i), i);
  for (size_t slot = 0; slot < locations.slots(); ++slot) {
    if (locations.address_at(slot) != 0) put_location(whole, locations, slot);
  }
  const Command command;
  // A comment, whose text is the last of the strings.
  if (command.is_there()) whole.number(13, kStrings + 2 * locations.code_count());
  put_strings(whole, locations, command);
}

}  // namespace loft::inspect
