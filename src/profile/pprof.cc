// The encoder of github.com/google/pprof's profile.proto.
#include <cerrno>
#include <cstring>
#include <new>

#include "files/output.h"
#include "profile/gzip.h"
#include "profile/locations.h"
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
  kLifetime,
  kMicroseconds,
  kStrings
};
constexpr const char* kText[kStrings] = {"",         "alloc_objects", "count",       "alloc_space",
                                         "bytes",    "inuse_objects", "inuse_space", "space",
                                         "lifetime", "microseconds"};

// One message of the wire format. Those of a profile are short, but for a sample's locations.
class ProtoMessage {
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
  void message(unsigned field, const ProtoMessage& inner) {
    bytes(field, inner.buffer_, inner.size_);
  }
  void text(unsigned field, const char* from) { bytes(field, from, strlen(from)); }

  void put_to(Gzip& gzip) {
    gzip.put(buffer_, size_);
    size_ = 0;
  }
  void clear() { size_ = 0; }

 private:
  void put(uint8_t byte) {
    if (size_ < sizeof(buffer_)) buffer_[size_++] = byte;
  }

  size_t size_ = 0;
  uint8_t buffer_[kMostFrames * 10 + 256];
};

// What the encoder works with. Not on the stack, which may be a fiber's or a signal's.
struct Encoder {
  explicit Encoder(int file) : gzip(file) {}

  void put() { whole.put_to(gzip); }

  Gzip gzip;
  ProtoMessage whole;
  ProtoMessage outer;
  ProtoMessage inner;
};

void put_value_type(Encoder& encoder, unsigned field, String type, String unit) {
  encoder.inner.clear();
  encoder.inner.number(1, type);
  encoder.inner.number(2, unit);
  encoder.whole.message(field, encoder.inner);
}

void put_types(Encoder& encoder) {
  put_value_type(encoder, 1, kAllocObjects, kCount);
  put_value_type(encoder, 1, kAllocSpace, kBytes);
  put_value_type(encoder, 1, kInuseObjects, kCount);
  put_value_type(encoder, 1, kInuseSpace, kBytes);
  put_value_type(encoder, 11, kSpace, kBytes);
  encoder.whole.number(12, mean_bytes());
  encoder.whole.number(14, kInuseSpace);
  encoder.whole.number(9, files::wall_clock_ns());
  encoder.put();
}

void put_label(Encoder& encoder, String key, uint64_t number, String unit) {
  encoder.inner.clear();
  encoder.inner.number(1, key);
  encoder.inner.number(3, number);
  encoder.inner.number(4, unit);
  encoder.outer.message(3, encoder.inner);
}

void put_sample(Encoder& encoder, const Locations& locations, const Site& site,
                const Figures& figures, uint64_t lifetime) {
  ProtoMessage& sample = encoder.outer;
  ProtoMessage& part = encoder.inner;
  sample.clear();
  part.clear();
  for (unsigned i = 0; i < site.depth; ++i) part.varint(locations.id_of(site.frames()[i]));
  sample.message(1, part);
  part.clear();
  part.varint(figures.allocated_objects);
  part.varint(figures.allocated_bytes);
  part.varint(figures.used_objects);
  part.varint(figures.used_bytes);
  sample.message(2, part);
  if (figures.allocated_objects != 0) {
    put_label(encoder, kBytes, figures.allocated_bytes / figures.allocated_objects, kBytes);
  }
  if (lifetime != 0) put_label(encoder, kLifetime, lifetime, kMicroseconds);
  encoder.whole.message(2, sample);
  encoder.put();
}

// The strings follow those of kText: a name and a build id for each mapping.
void put_mapping(Encoder& encoder, const Code& code, size_t i) {
  ProtoMessage& mapping = encoder.outer;
  mapping.clear();
  mapping.number(1, i + 1);
  mapping.number(2, code.begin);
  mapping.number(3, code.end);
  mapping.number(4, code.offset);
  mapping.number(5, kStrings + 2 * i);
  mapping.number(6, kStrings + 2 * i + 1);
  encoder.whole.message(3, mapping);
  encoder.put();
}

void put_location(Encoder& encoder, const Locations& locations, size_t slot) {
  const uintptr_t address = locations.address_at(slot);
  ProtoMessage& location = encoder.outer;
  location.clear();
  location.number(1, slot + 1);
  location.number(2, locations.code_of(address));
  location.number(3, address - 1);  // within the call, not behind it: that may be another line's
  encoder.whole.message(4, location);
  encoder.put();
}

void put_strings(Encoder& encoder, const Locations& locations) {
  for (const char* text : kText) encoder.whole.text(6, text);
  encoder.put();
  for (size_t i = 0; i < locations.code_count(); ++i) {
    const Code& code = locations.code(i);
    char id[2 * sizeof(code.build_id) + 1] = {};
    for (size_t n = 0; n < code.build_id_bytes; ++n) {
      id[2 * n] = "0123456789abcdef"[code.build_id[n] >> 4];
      id[2 * n + 1] = "0123456789abcdef"[code.build_id[n] & 15];
    }
    encoder.whole.text(6, code.name);
    encoder.whole.text(6, id);
    encoder.put();
  }
}

int put_all(Encoder& encoder, const Locations& locations, const Site* newest, Moment moment) {
  encoder.gzip.begin();
  put_types(encoder);
  for (const Site* site = newest; site != nullptr; site = site->older) {
    put_sample(encoder, locations, *site, figures_of(*site, moment), mean_lifetime_us(*site));
  }
  for (size_t i = 0; i < locations.code_count(); ++i) put_mapping(encoder, locations.code(i), i);
  for (size_t slot = 0; slot < locations.slots(); ++slot) {
    if (locations.address_at(slot) != 0) put_location(encoder, locations, slot);
  }
  put_strings(encoder, locations);
  return encoder.gzip.end();
}

}  // namespace

int write_pprof(int file, Moment moment) {
  const Site* const newest = newest_site();
  const Locations locations;  // after the sites: it knows all their frames
  void* const memory = files::borrow(sizeof(Encoder));
  int error = ENOMEM;
  if (locations.is_complete() && memory != nullptr) {
    error = put_all(*new (memory) Encoder(file), locations, newest, moment);
  }
  files::give_back(memory, sizeof(Encoder));
  return error;
}

}  // namespace loft::profile
