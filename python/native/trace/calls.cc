#include "calls.h"

namespace trace {

Calls::Calls(Chunks& chunks, size_t image, uint64_t samples_wanted) {
  gather(chunks, image);
  match(samples_wanted);
}

void Calls::gather(Chunks& chunks, size_t image) {
  // The youngest first.
  Table<size_t> lineage;
  for (const uint64_t* parent; lineage.add(image), (parent = chunks.parent_of(image)) != nullptr;) {
    if (lineage.size() > chunks.images().size()) fail("damaged: a process is its own ancestor");
    image = *parent;
  }
  uint64_t offset = 0;
  // The numbers of the threads of each process follow those of its parent; but the thread that
  // forks is in the child what it was.
  uint32_t first_thread = 0;
  uint32_t forker = UINT32_MAX;
  for (size_t i = lineage.size(); i-- > 0;) {
    const bool last = i == 0;
    const Image& here = chunks.images()[lineage[i]];
    const uint64_t limit = last ? here.tickets : chunks.images()[lineage[i - 1]].forked;
    records_.resize(offset + limit + 1);
    uint32_t threads = 0;
    const auto number_of = [&](uint64_t thread) {
      return thread == 0 && forker != UINT32_MAX ? forker
                                                 : first_thread + static_cast<uint32_t>(thread);
    };
    chunks.each_call(lineage[i], [&](uint32_t thread, const Event& event) {
      if (thread >= threads) threads = thread + 1;
      // What was under way in another thread when the process forked is not in the child.
      if (event.ticket > limit || (moves(event.call) && event.end > limit)) return;
      Event renamed = event;
      if (event.call == kSpawn || event.call == kJoin) {
        renamed.count = number_of(event.count & UINT32_MAX);
      }
      if (!last) inherited++;
      place(number_of(thread), renamed, offset);
    });
    if (!last) {
      const uint64_t forked_by = chunks.images()[lineage[i - 1]].forker;
      forker = forked_by < threads ? number_of(forked_by) : UINT32_MAX;
      first_thread += threads;
      if (first_thread >= UINT32_MAX / 2) fail("damaged: too many threads");
      offset += limit;
    }
  }
}

void Calls::place(uint32_t thread, const Event& event, uint64_t offset) {
  Record& record = records_[offset + event.ticket];
  if (event.ticket == 0 || record.call != 0) fail("damaged: two calls at the same time");
  record.call = event.call;
  record.nothing = event.nothing;
  record.thread = thread;
  record.count = event.count;
  record.size = event.size;
  record.owner = event.old;
  record.address = event.address;
  record.ticks = event.ticks;
  if (moves(event.call)) {
    record.end = offset + event.end;
    Record& end = records_[offset + event.end];
    if (end.call != 0) fail("damaged: two calls at the same time");
    end = record;
    end.call = kMoved;
    end.end = offset + event.ticket;
    end.size = asked(record);
  }
}

void Calls::match(uint64_t wanted) {
  Map live;
  uint64_t bytes = 0;
  uint64_t taken = 0;
  const auto end_object = [&](Record& record, uint64_t address) {
    const uint64_t* owner = live.find(address);
    if (owner == nullptr) {
      foreign++;
      record.foreign = true;
      return;
    }
    record.owner = *owner;
    Record& began = records_[*owner];
    if (began.thread != record.thread && !began.handed) {
      began.handed = true;
      handed++;
    }
    bytes -= asked(began);
    live.remove(address);
  };
  for (uint64_t ticket = 1; ticket < records_.size(); ticket++) {
    Record& record = records_[ticket];
    if (record.call == 0) continue;
    const auto call = static_cast<Call>(record.call);
    if (record.call != kMoved) {
      calls++;
      by_call[call]++;
    }
    if (frees(call)) {
      if (!record.nothing) end_object(record, record.address);
      if (record.foreign) record.call = 0;
    } else if (moves(call)) {
      // What fails moves nothing; but to no bytes at all, that is how the old object is freed.
      const uint64_t old = record.owner;
      record.owner = 0;
      const bool gone = record.nothing && asked(record) == 0;
      if (record.nothing && !gone) failed++;
      if (old != 0 && (!record.nothing || gone)) {
        end_object(record, old);
      } else if (old != 0) {
        const uint64_t* owner = live.find(old);
        record.foreign = owner == nullptr;
        record.owner = owner == nullptr ? 0 : *owner;
      }
    } else if (begins(record)) {
      if (const uint64_t* lost = live.find(record.address)) {
        // Its end was not seen.
        twice++;
        bytes -= asked(records_[*lost]);
      }
      live.set(record.address, ticket);
      bytes += asked(record);
      const uint64_t size = asked(record);
      by_size[size == 0 ? 0 : 64 - __builtin_clzll(size)]++;
      if (bytes > peak_bytes) {
        peak_bytes = bytes;
        peak_objects = live.size();
        peak_ticket = ticket;
      }
    } else if (record.nothing && record.call != kMoved) {
      failed++;
    }
    if (wanted != 0 && ticket * wanted / records_.size() >= taken) {
      taken = ticket * wanted / records_.size() + 1;
      samples.add({ticket, bytes});
    }
  }
  left_objects = live.size();
  left_bytes = bytes;
}

}  // namespace trace
