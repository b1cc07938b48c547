// Messages that a write after free has damaged, or made up: two heaps send each other objects, the
// input says what is written over those that were freed, and then the heaps take in what there is.
// They may believe it, if it could be true, or stop the program with the line that is about it.
// Whatever else happens is a finding: a broken invariant, a signal, a drain without end.
#include <sanitizer/asan_interface.h>
#include <setjmp.h>
#include <string.h>

#include <algorithm>
#include <new>
#include <set>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "heap/heap.h"
#include "os/fault.h"
#include "remote/message.h"
#include "remote/pack.h"
#include "space/span.h"

namespace {

using loft::Heap;
using loft::HeapId;
using loft::Message;
using loft::Slab;

jmp_buf after_report;

void* address(uintptr_t at) { return reinterpret_cast<void*>(at); }
uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Two heaps whose ids differ in more than one digit, so that what is misdirected makes hops. They
// are not in the registry: no other heap looks for them, and they are made anew for every input.
class Heaps {
 public:
  static constexpr size_t kCount = 2;

  Heaps() {
    for (size_t i = 0; i < kCount; ++i) {
      new (memory_[i]) Heap(kIds[i]);
      loft::directory[kIds[i]].store(&at(i).inbox());
    }
  }
  // A slab that was let go is no slab's memory any more, either.
  void note_gone() {
    for (const uintptr_t base : bases_) {
      if (slab_at(base) == nullptr) {
        __asan_poison_memory_region(address(base), loft::kGranule);
      }
    }
  }

  // The slabs go back as they are, whatever the heaps believe of them: those that nobody has seen
  // yet, too.
  ~Heaps() {
    const uintptr_t end = loft::pagemap.base + loft::span::used_bytes();
    for (uintptr_t base = loft::pagemap.base; base < end; base += loft::kGranule) {
      Slab* slab = slab_at(base);
      if (slab == nullptr || slab->base != base) continue;
      slab->free = slab->shape().objects;
      slab->set_list(loft::Fullness::kSpare);
      loft::slab::destroy_all(&slab, 1);
    }
  }
  Heaps(const Heaps&) = delete;
  Heaps& operator=(const Heaps&) = delete;

  Heap& at(size_t i) { return *std::launder(reinterpret_cast<Heap*>(memory_[i % kCount])); }

  std::vector<uintptr_t> take(size_t heap, loft::SizeClass size_class, unsigned wanted) {
    std::vector<void*> slots(wanted);
    const loft::os::Guard guard(at(heap).lock());
    unsigned taken = at(heap).refill(size_class, &slots[wanted - 1], wanted);
    if (taken == 0) taken = at(heap).refill_from_new(size_class, &slots[wanted - 1], wanted);
    std::vector<uintptr_t> objects;
    for (unsigned i = 0; i < taken; ++i) objects.push_back(number(slots[wanted - 1 - i]));
    for (unsigned i = 0; i < taken; ++i) {
      if (i == 0 || slab_at(objects[i]) != slab_at(objects[i - 1])) note(objects[i]);
    }
    return objects;
  }

  // The slab of the heaps that lies there, if there still is one.
  static Slab* slab_at(uintptr_t p) {
    if (!loft::pagemap.contains(address(p))) return nullptr;
    const loft::Entry entry = loft::pagemap.of(address(p));
    const bool ours = entry.is_slab() && std::count(kIds, kIds + kCount, entry.owner()) != 0;
    return ours ? loft::slab::at(entry) : nullptr;
  }

 private:
  static constexpr HeapId kIds[kCount] = {0x6001, 0x7042};

  // Nobody may read what lies behind a slab: there need not be memory.
  void note(uintptr_t object) {
    const Slab* slab = slab_at(object);
    const uintptr_t end = slab->base + (size_t{slab->shape().granules} << loft::kGranuleLog);
    __asan_unpoison_memory_region(address(slab->base), end - slab->base);
    if (slab_at(end) == nullptr) __asan_poison_memory_region(address(end), loft::kGranule);
    bases_.insert(slab->base);
  }

  alignas(Heap) static unsigned char memory_[kCount][sizeof(Heap)];
  std::set<uintptr_t> bases_;
};
alignas(Heap) unsigned char Heaps::memory_[kCount][sizeof(Heap)];

class Run {
 public:
  explicit Run(fuzz::Bytes bytes) : bytes_(bytes) {}

  void all() {
    for (int steps = 0; !bytes_.empty() && steps < kMostSteps; ++steps) {
      step();
      heaps_.note_gone();
    }
    for (size_t i = 0; i < Heaps::kCount; ++i) take_in(i);
  }

 private:
  static constexpr int kMostSteps = 100;
  static constexpr size_t kMostObjects = 2000;

  void step() {
    const uint8_t choice = bytes_.byte();
    const size_t heap = choice / 8;
    switch (choice % 8) {
      case 0: {
        const auto size_class = static_cast<loft::SizeClass>(bytes_.byte() % loft::kSizeClasses);
        if (live_.size() >= kMostObjects) return;
        const std::vector<uintptr_t> got = heaps_.take(heap, size_class, 1u + bytes_.byte());
        live_.insert(live_.end(), got.begin(), got.end());
        return;
      }
      case 1:
        return send_bitmap(heap);
      case 2:
        return send_records(heap);
      case 3:
      case 4:
        return damage();
      case 5: {
        const loft::os::Guard guard(heaps_.at(heap).lock());
        heaps_.at(heap).drain(bytes_.number(2));
        return;
      }
      case 6:
        return take_in(heap);
      default: {
        // As a thread does that lacks slabs: what was sent to the other heap is forwarded then.
        const loft::os::Guard guard(heaps_.at(0).lock());
        const loft::os::Guard other(heaps_.at(1).lock());
        heaps_.at(heap).take_over(heaps_.at(heap + 1), bytes_.byte() % loft::kSizeClasses, 0, true);
        return;
      }
    }
  }

  void take_in(size_t heap) {
    const loft::os::Guard guard(heaps_.at(heap).lock());
    heaps_.at(heap).drain_all();
    heaps_.at(heap).check();
  }

  // Up to so many live objects, the last ones first, of the slab of the last one: their bits.
  Slab* collect(unsigned most, uint64_t* words) {
    Slab* slab = live_.empty() ? nullptr : Heaps::slab_at(live_.back());
    if (slab == nullptr && !live_.empty()) live_.pop_back();
    while (slab != nullptr && most-- != 0 && !live_.empty() &&
           Heaps::slab_at(live_.back()) == slab) {
      const size_t index = (live_.back() - slab->base) / slab->shape().size;
      words[index / 64] |= uint64_t{1} << index % 64;
      freed_.push_back(live_.back());
      live_.pop_back();
    }
    return slab;
  }

  // To the heap that owns it, or, as if the slab had moved since, to the other one.
  void send(Message* message, size_t heap) {
    if (heap % 4 == 3) {
      heaps_.at(heap / 4).inbox().push({message, message});
    } else {
      loft::deliver({message, message});
    }
  }

  void send_bitmap(size_t heap) {
    uint64_t words[loft::kMaxWords] = {};
    Slab* slab = collect(1u + bytes_.byte(), words);
    if (slab == nullptr) return;
    std::vector<Message*> messages;
    loft::pack(slab->base, slab->shape(), words, loft::used_words(slab->shape(), words),
               [&](Message* message) { messages.push_back(message); });
    for (Message* message : messages) send(message, heap);
  }

  // The last object carries: as many words of as many slabs as it has room for.
  void send_records(size_t heap) {
    Message* message = nullptr;
    unsigned count = 0;
    uint64_t seal = 0;
    const unsigned slabs = 1u + bytes_.byte() % 4;
    for (unsigned i = 0; i < slabs && !live_.empty(); ++i) {
      auto* carrier = reinterpret_cast<Message*>(live_.back());
      uint64_t words[loft::kMaxWords] = {};
      Slab* slab = collect(1, words);
      if (slab == nullptr || slab->shape().size < loft::messages::head() + sizeof(loft::Record))
        continue;
      if (message == nullptr) message = carrier;
      const unsigned room = loft::record_capacity(Heaps::slab_at(number(message))->shape().size);
      if (count == room) break;
      loft::write_records(loft::metadata::index_of(slab), words,
                          loft::used_words(slab->shape(), words), message->records() + count++,
                          &seal);
      for (unsigned more = bytes_.byte() % 8; more != 0 && !live_.empty(); --more) {
        std::rotate(live_.begin(), live_.end() - 1, live_.end());
      }
    }
    if (message == nullptr) return;
    loft::write_end(message, loft::records_tag(count));
    send(message, heap);
  }

  // Any object, freed or not: its slab's start and end are among them.
  uintptr_t some_address() {
    const uint8_t kind = bytes_.byte();
    const std::vector<uintptr_t>& from = kind % 2 == 0 || live_.empty() ? freed_ : live_;
    if (from.empty()) return bytes_.number(6);
    const uintptr_t object = from[bytes_.byte() % from.size()];
    const Slab* slab = Heaps::slab_at(object);
    if (kind / 2 % 4 == 1 && slab != nullptr) return slab->base;
    if (kind / 2 % 4 == 2 && slab != nullptr) {
      return slab->base + (size_t{slab->shape().granules} << loft::kGranuleLog) - bytes_.byte();
    }
    return object + (kind / 2 % 4 == 3 ? bytes_.byte() : 0);
  }

  uint64_t some_word() {
    switch (bytes_.byte() % 6) {
      case 0:
        return 0;
      case 1:
        return bytes_.number(8);
      case 2:
        return some_address();
      case 3: {
        // A link: an address, and above it whatever a message is called.
        const uint64_t tag = bytes_.number(2);
        return some_address() | tag << 48;
      }
      case 4: {
        // The first half of a record.
        const Slab* slab = Heaps::slab_at(some_address());
        const uint64_t index = slab != nullptr ? loft::metadata::index_of(slab) : bytes_.number(4);
        return index | uint64_t{bytes_.byte()} << 32;
      }
      default:
        return ~uint64_t{0} >> bytes_.byte() % 64 << bytes_.byte() % 64;
    }
  }

  // The program's own write after free, into what still is an object of the heaps.
  void damage() {
    if (freed_.empty()) return;
    const size_t from_last = bytes_.byte();
    const uintptr_t object = freed_[freed_.size() - 1 - from_last % freed_.size()];
    const Slab* slab = Heaps::slab_at(object);
    if (slab == nullptr) return;
    const uint8_t how = bytes_.byte();
    size_t at = how / 4 % 16 * 8;
    for (unsigned count = 1 + how % 4; count != 0 && at + 8 <= slab->shape().size;
         --count, at += 8) {
      const uint64_t word = some_word();
      memcpy(address(object + at), &word, sizeof(word));
    }
  }

  fuzz::Bytes bytes_;
  Heaps heaps_;
  std::vector<uintptr_t> live_;
  std::vector<uintptr_t> freed_;
};

}  // namespace

// In place of what ends the program: --wrap, see CMakeLists.txt.
extern "C" [[noreturn]] void __wrap_loft_fault(const loft::Text& what) __asm__(
    "__wrap__ZN4loft2os5faultERKNS_4TextE");
extern "C" void __wrap_loft_fault(const loft::Text& what) {
  const std::string_view line(what.data(), what.size());
  if (line.starts_with("double free") || line.starts_with("write after free")) {
    longjmp(after_report, 1);
  }
  fuzz::wrong("%.*s", static_cast<int>(line.size()), line.data());
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (!loft::span::initialise()) fuzz::wrong("no address space");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Run run(fuzz::Bytes(data, size));
  // A report leaves what it was about half done, and locks held; the heaps are made anew.
  if (setjmp(after_report) == 0) run.all();
  return 0;
}
