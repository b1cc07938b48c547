// What all calls of the fuzzer share: the input that chooses them, the model that judges them, and
// whether a request may be refused.
#pragma once

#include <errno.h>

#include "bytes.h"
#include "model.h"

namespace fuzz {

struct Scene {
  static constexpr size_t kMostObjects = 20'000;
  static constexpr size_t kMostBytes = 48 << 20;

  // Borders of classes and kinds, and whatever the input likes.
  size_t size() {
    const uint8_t kind = bytes.byte();
    if (kind % 8 < 4) return bytes.byte();
    if (kind % 8 == 4) return bytes.number(2) % 1100;
    if (kind % 8 == 5) return bytes.number(2);
    if (kind % 8 == 6) return (size_t{16} << kind / 8 % 17) + bytes.byte() - 16;
    return bytes.number(3) % (6 << 20);
  }
  size_t alignment() {
    const uint8_t kind = bytes.byte();
    return size_t{1} << (kind < 240 ? kind % 14 : kind % 22);
  }
  // An object, kNone if there is none.
  static constexpr size_t kNone = SIZE_MAX;
  size_t pick() {
    const size_t count = model.objects().size();
    const uint64_t choice = bytes.number(2);
    if (count == 0) return kNone;
    return choice % 4 == 0 ? count - 1 : choice / 4 % count;
  }
  const Object& at(size_t index) const { return model.objects()[index]; }
  bool full() const {
    return model.objects().size() >= kMostObjects || model.bytes() >= kMostBytes;
  }

  // Under a hard limit the answer may be no.
  bool refused(const char* call, const void* p) const {
    if (p != nullptr) return false;
    if (!limited || errno != ENOMEM) wrong("%s: no memory, errno %d", call, errno);
    return true;
  }

  // After a call that was to resize the object, which the model does not have at the moment. True
  // if it has it again, elsewhere or not.
  bool settle(const char* call, Object object, void* p, size_t bytes_now, size_t usable) {
    if (bytes_now == 0) {
      if (p != nullptr) wrong("%s to nothing gave %p", call, p);
      return false;
    }
    if (p == nullptr) {
      if (!object.in_region) refused(call, p);
      model.put_back(object);
      return true;
    }
    Model::check(call, object, p, std::min(object.usable, bytes_now));
    object.size = bytes_now;
    object.usable = usable;
    object.alignment = 1;
    model.add(call, p, object);
    return true;
  }

  Bytes bytes;
  Model model = {};
  bool limited = false;
};

}  // namespace fuzz
