// All calls of one process of a trace in the order of their tickets, and what they say about one
// another: who frees what who has allocated. To the calls of a process that was forked belong those
// of its parent up to then, whose objects it has inherited.
#ifndef LOFT_TRACE_CALLS_H_
#define LOFT_TRACE_CALLS_H_

#include "chunks.h"

namespace trace {

// At a ticket that nobody had, `call` is 0; at the second ticket of a realloc it is kMoved.
inline constexpr uint8_t kMoved = 31;

struct Record {
  uint8_t call;
  bool nothing;
  // The object that begins here ends in another thread.
  bool handed;
  // A realloc of what was not allocated while we watched; such frees are left out (call 0).
  bool foreign;
  uint32_t thread;
  uint64_t count;
  uint64_t size;
  // The ticket at which what ends here began.
  uint64_t owner;
  // Until the calls are matched an address, then the object's place.
  uint64_t address;
  uint64_t end;  // or, at kMoved, the beginning
  uint64_t ticks;
};

// Bytes that a call asks for.
inline uint64_t asked(const Record& record) {
  const bool array = record.call == kCalloc || record.call == kReallocArray;
  return array ? record.count * record.size : record.size;
}

struct Sample {
  uint64_t ticket;
  uint64_t live_bytes;
};

class Calls {
 public:
  Calls(Chunks& chunks, size_t image, uint64_t samples);

  uint64_t last() const { return records_.size() - 1; }
  Record& at(uint64_t ticket) { return records_[ticket]; }
  // True if an object begins at this ticket.
  static bool begins(const Record& record) {
    return record.call != 0 && !record.nothing &&
           (record.call == kMoved || (record.call < kSpawn && !frees_or_moves(record.call)));
  }
  // Where something ends, its owner is set.
  static bool frees_or_moves(uint8_t call) {
    return frees(static_cast<Call>(call)) || moves(static_cast<Call>(call));
  }

  uint64_t by_call[32] = {};
  // Of the objects: how many had between 2^n and 2^(n+1) - 1 bytes; those of none are the first.
  uint64_t by_size[65] = {};
  uint64_t calls = 0;
  uint64_t failed = 0;
  uint64_t handed = 0;
  uint64_t foreign = 0;
  uint64_t twice = 0;
  uint64_t peak_bytes = 0;
  uint64_t peak_objects = 0;
  uint64_t peak_ticket = 0;
  uint64_t left_objects = 0;
  uint64_t left_bytes = 0;
  // Of these calls, those of ancestors.
  uint64_t inherited = 0;
  Table<Sample> samples;

 private:
  void gather(Chunks& chunks, size_t image);
  void place(uint32_t thread, const Event& event, uint64_t offset);
  void match(uint64_t wanted_samples);

  Table<Record> records_;
};

}  // namespace trace

#endif  // LOFT_TRACE_CALLS_H_
