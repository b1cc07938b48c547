// The encoder of github.com/google/pprof's profile.proto.
#include <cerrno>
#include <cstring>

#include "files/output.h"
#include "profile/gzip.h"
#include "profile/places.h"
#include "profile/progress.h"
#include "profile/snapshot.h"

namespace loft::profile {

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
  kStrings
};
constexpr const char* kText[kStrings] = {"",      "alloc_objects", "count",       "alloc_space",
                                         "bytes", "inuse_objects", "inuse_space", "space"};

// One message of the wire format. Those of a profile are short, but for a sample's locations.
class Message {
 public:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) put(static_cast<uint8_t>(value | 128));
    put(static_cast<uint8_t>(value));
  }
  void number(unsigned field, uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void bytes(unsigned field, const void* from, size_t count) {
    varint(field << 3 | 2);
    varint(count);
    for (size_t i = 0; i < count; ++i) put(static_cast<const uint8_t*>(from)[i]);
  }
  void message(unsigned field, const Message& inner) { bytes(field, inner.buffer_, inner.size_); }
  void text(unsigned field, const char* from) { bytes(field, from, strlen(from)); }

  void put_to(Gzip& gzip) {
    gzip.put(buffer_, size_);
    size_ = 0;
  }

 private:
  void put(uint8_t byte) {
    if (size_ < sizeof(buffer_)) buffer_[size_++] = byte;
  }

  size_t size_ = 0;
  uint8_t buffer_[kMostFrames * 10 + 256];
};

Message value_type(String type, String unit) {
  Message message;
  message.number(1, type);
  message.number(2, unit);
  return message;
}

void put_types(Gzip& gzip) {
  Message all;
  all.message(1, value_type(kAllocObjects, kCount));
  all.message(1, value_type(kAllocSpace, kBytes));
  all.message(1, value_type(kInuseObjects, kCount));
  all.message(1, value_type(kInuseSpace, kBytes));
  all.message(11, value_type(kSpace, kBytes));
  all.number(12, mean_bytes());
  all.number(14, kInuseSpace);
  all.number(9, files::wall_clock_ns());
  all.put_to(gzip);
}

void put_sample(Gzip& gzip, const Places& places, const Site& site, Moment moment) {
  const Figures figures = figures_of(site, moment);
  Message packed;
  for (unsigned i = 0; i < site.depth; ++i) packed.varint(places.id_of(site.frames()[i]));
  Message sample;
  sample.message(1, packed);
  Message values;
  values.varint(figures.allocated_objects);
  values.varint(figures.allocated_bytes);
  values.varint(figures.used_objects);
  values.varint(figures.used_bytes);
  sample.message(2, values);
  if (figures.allocated_objects != 0) {
    Message label;
    label.number(1, kBytes);
    label.number(3, figures.allocated_bytes / figures.allocated_objects);
    label.number(4, kBytes);
    sample.message(3, label);
  }
  Message whole;
  whole.message(2, sample);
  whole.put_to(gzip);
}

// The strings follow those of kText: a name and a build id for each mapping.
void put_mapping(Gzip& gzip, const Code& code, size_t i) {
  Message mapping;
  mapping.number(1, i + 1);
  mapping.number(2, code.begin);
  mapping.number(3, code.end);
  mapping.number(4, code.offset);
  mapping.number(5, kStrings + 2 * i);
  mapping.number(6, kStrings + 2 * i + 1);
  Message whole;
  whole.message(3, mapping);
  whole.put_to(gzip);
}

void put_location(Gzip& gzip, const Places& places, size_t slot) {
  const uintptr_t address = places.address_at(slot);
  Message location;
  location.number(1, slot + 1);
  location.number(2, places.code_of(address));
  location.number(3, address - 1);  // within the call, not behind it: that may be another line's
  Message whole;
  whole.message(4, location);
  whole.put_to(gzip);
}

void put_strings(Gzip& gzip, const Places& places) {
  Message whole;
  for (const char* text : kText) whole.text(6, text);
  whole.put_to(gzip);
  for (size_t i = 0; i < places.code_count(); ++i) {
    const Code& code = places.code(i);
    char id[2 * sizeof(code.build_id) + 1] = {};
    for (size_t n = 0; n < code.build_id_bytes; ++n) {
      id[2 * n] = "0123456789abcdef"[code.build_id[n] >> 4];
      id[2 * n + 1] = "0123456789abcdef"[code.build_id[n] & 15];
    }
    whole.text(6, code.name);
    whole.text(6, id);
    whole.put_to(gzip);
  }
}

}  // namespace

int write_pprof(int file, Moment moment) {
  const Site* const newest = newest_site();
  const Places places;  // after the sites: it knows all their frames
  if (!places.is_complete()) return ENOMEM;
  Gzip gzip(file);
  gzip.begin();
  put_types(gzip);
  for (const Site* site = newest; site != nullptr; site = site->older) {
    put_sample(gzip, places, *site, moment);
  }
  for (size_t i = 0; i < places.code_count(); ++i) put_mapping(gzip, places.code(i), i);
  for (size_t slot = 0; slot < places.slots(); ++slot) {
    if (places.address_at(slot) != 0) put_location(gzip, places, slot);
  }
  put_strings(gzip, places);
  return gzip.end();
}

}  // namespace loft::profile
