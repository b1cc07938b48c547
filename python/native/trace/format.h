// What a trace consists of, once it is no longer compressed: docs/internals/trace-format.md. The
// recorder writes it from inside the recorded processes, loft-trace reads it.
//
// All numbers are little endian. A chunk holds calls of one thread, in their order, and can be read
// without any other: what is written as a difference begins anew in each.
#ifndef LOFT_TRACE_FORMAT_H_
#define LOFT_TRACE_FORMAT_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace trace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "numbers are copied as they lie in memory");

// So long a write to a pipe happens as a whole or not at all, whoever else writes: PIPE_BUF of
// Linux.
inline constexpr size_t kChunkBytes = 4096;

inline constexpr uint32_t kCallsChunk = 0x31434c54;    // "TLC1": calls of a thread
inline constexpr uint32_t kProcessChunk = 0x31504c54;  // "TLP1": a process, which has begun

// A tick of the recorded times, in nanoseconds.
inline constexpr uint64_t kTick = 1024;

struct ChunkHeader {
  uint32_t magic;
  uint32_t bytes;  // of the chunk, this header included
  uint64_t image;  // which process: no two have the same number, nor has one after an exec
  uint32_t pid;
  uint32_t thread;  // from 0 on, in the order of their first calls
  uint32_t serial;  // of the chunks of this thread, from 0 on: one that comes twice counts once
  uint32_t lost;    // calls that could not be noted meanwhile
  uint64_t ticket;  // that of the first call is one more, if its head says "next"
  uint64_t ticks;   // time of the first call, likewise
};
static_assert(sizeof(ChunkHeader) == 48);

// What follows the header of a process's chunk; and then its command line, with a 0 after each
// word.
struct ProcessHeader {
  uint64_t parent;  // the image that it was forked from; 0 if it began with an exec
  uint64_t forked;  // the parent's ticket at that time
  uint64_t forker;  // the parent's thread that is this one's thread 0
};

enum Call : uint8_t {
  kMalloc = 1,     // size, address
  kCalloc,         // count, size, address
  kRealloc,        // size, old address, address
  kReallocNew,     // size, address: realloc of nothing
  kReallocArray,   // count, size, old address (0 if none), address
  kFree,           // address
  kFreeSized,      // size, address
  kFreeAligned,    // alignment, size, address: free_aligned_sized
  kAlignedAlloc,   // alignment, size, address
  kMemalign,       // the same
  kPosixMemalign,  // the same
  kValloc,         // size, address
  kPvalloc,        // size, address
  kSpawn,          // number of a thread that is about to be started
  kJoin,           // number of a thread that has been waited for
  kEnd,            // this thread ends
  kLastCall = kEnd,
};

// The head of a call is one byte: which, and these.
inline constexpr uint8_t kCallBits = 0x1f;
inline constexpr uint8_t kNext = 0x20;     // the ticket is the last one and one; else a difference
inline constexpr uint8_t kNow = 0x40;      // the tick is the last one; else a difference
inline constexpr uint8_t kNothing = 0x80;  // no address: the call failed, or freed nothing

// The head, ticket, ticks, second ticket and three numbers of at most 10 bytes each.
inline constexpr size_t kLongestCall = 64;

// One call, as it was. A realloc has two tickets: before its start and after its end, as another
// thread may be given the old address meanwhile.
struct Event {
  Call call;
  bool nothing;
  uint64_t ticket;
  uint64_t end;  // the second ticket
  uint64_t ticks;
  uint64_t count;  // or the alignment, or a thread's number
  uint64_t size;
  uint64_t old;
  uint64_t address;
};

inline bool has_count(Call call) {
  return call == kCalloc || call == kReallocArray || call == kFreeAligned ||
         call == kAlignedAlloc || call == kMemalign || call == kPosixMemalign || call == kSpawn ||
         call == kJoin;
}
inline bool has_size(Call call) { return call != kFree && call < kSpawn; }
inline bool moves(Call call) { return call == kRealloc || call == kReallocArray; }
inline bool frees(Call call) { return call == kFree || call == kFreeSized || call == kFreeAligned; }
inline bool has_address(Call call) { return call < kSpawn; }

inline uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

inline uint8_t* put(uint8_t* at, uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<uint8_t>(value);
  return at;
}

// An address as its difference to the last one, most of which are multiples of 16.
inline uint64_t address_code(uint64_t address, uint64_t last) {
  const auto difference = static_cast<int64_t>(address - last);
  return (difference & 15) == 0 ? zigzag(difference >> 4) << 1 : zigzag(difference) << 1 | 1;
}
inline uint64_t address_of(uint64_t code, uint64_t last) {
  const int64_t difference = unzigzag(code >> 1);
  const auto bytes = static_cast<uint64_t>(difference);
  return last + ((code & 1) == 0 ? bytes << 4 : bytes);
}

// Where the differences start from.
struct Base {
  uint64_t ticket;
  uint64_t ticks;
  uint64_t address;
};

inline uint8_t* write(uint8_t* at, const Event& event, Base& base) {
  uint8_t* const head = at++;
  *head = static_cast<uint8_t>(event.call | (event.nothing ? kNothing : 0));
  if (event.ticket == base.ticket + 1) {
    *head = static_cast<uint8_t>(*head | kNext);
  } else {
    at = put(at, zigzag(static_cast<int64_t>(event.ticket - base.ticket)));
  }
  base.ticket = event.ticket;
  if (event.ticks == base.ticks) {
    *head = static_cast<uint8_t>(*head | kNow);
  } else {
    at = put(at, zigzag(static_cast<int64_t>(event.ticks - base.ticks)));
  }
  base.ticks = event.ticks;
  if (has_count(event.call)) at = put(at, event.count);
  if (has_size(event.call)) at = put(at, event.size);
  if (moves(event.call)) {
    at = put(at, event.end - event.ticket - 1);
    base.ticket = event.end;
    at = put(at, address_code(event.old, base.address));
    base.address = event.old;
  }
  if (has_address(event.call) && !event.nothing) {
    at = put(at, address_code(event.address, base.address));
    base.address = event.address;
  }
  return at;
}

// Reads what write() wrote, and nothing beyond `end`.
class Reader {
 public:
  Reader(const uint8_t* at, const uint8_t* end, Base base) : at_(at), end_(end), base_(base) {}
  bool more() const { return at_ < end_; }
  // False if this is no call.
  bool read(Event& event) {
    const uint8_t head = *at_++;
    memset(&event, 0, sizeof(event));
    event.call = static_cast<Call>(head & kCallBits);
    event.nothing = (head & kNothing) != 0;
    if (event.call < kMalloc || event.call > kLastCall) return false;
    base_.ticket += (head & kNext) != 0 ? 1 : static_cast<uint64_t>(unzigzag(number()));
    base_.ticks += (head & kNow) != 0 ? 0 : static_cast<uint64_t>(unzigzag(number()));
    event.ticket = base_.ticket;
    event.ticks = base_.ticks;
    if (has_count(event.call)) event.count = number();
    if (has_size(event.call)) event.size = number();
    if (moves(event.call)) {
      event.end = base_.ticket = event.ticket + 1 + number();
      if (event.end <= event.ticket) return false;
      event.old = base_.address = address_of(number(), base_.address);
    }
    if (has_address(event.call) && !event.nothing) {
      event.address = base_.address = address_of(number(), base_.address);
      if (event.address == 0) return false;
    }
    return good_;
  }

 private:
  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) break;
      const uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  Base base_;
  bool good_ = true;
};

}  // namespace trace

#endif  // LOFT_TRACE_FORMAT_H_
