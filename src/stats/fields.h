// The fields of the two structs of loft.h, with their names and meanings. One table serves all
// formats; its order is the one in which people read it.
#pragma once

#include <cstddef>
#include <iterator>

#include "loft/loft.h"

namespace loft {

// Two kinds are of the accounting identity: what adds up to resident_bytes, and what is subtracted.
enum class FieldKind : uint8_t { kNow, kPart, kSubtracted, kEvents };

struct Field {
  const char* group;  // heading; set on the first field of a group
  const char* name;
  uint64_t loft_stats_t::* value;
  FieldKind kind;
  const char* help;
};

struct ClassField {
  const char* name;
  uint64_t loft_class_stats_t::* value;
  FieldKind kind;
  const char* help;
};

#define LOFT_FIRST(group, name, kind, help) \
  {group, #name, &loft_stats_t::name, FieldKind::kind, help}
#define LOFT_NEXT(name, kind, help) LOFT_FIRST(nullptr, name, kind, help)
inline constexpr Field kFields[] = {
    LOFT_FIRST("Resident memory", resident_bytes, kNow,
               "Resident memory of the heap, the sum of the parts below"),
    LOFT_NEXT(live_bytes, kPart, "Requested by the program and not freed; in part an estimate"),
    LOFT_NEXT(rounding_bytes, kPart,
              "Space of live objects beyond their requests; in part an estimate"),
    LOFT_NEXT(free_in_slabs_bytes, kPart, "Free memory on resident pages of slabs"),
    LOFT_NEXT(cached_bytes, kPart, "Small objects in thread caches"),
    LOFT_NEXT(in_flight_bytes, kPart,
              "Small objects on their way back from threads that freed them"),
    LOFT_NEXT(large_cached_bytes, kPart, "Large objects in caches"),
    LOFT_NEXT(free_span_bytes, kPart, "Free spans that are still resident"),
    LOFT_NEXT(metadata_resident_bytes, kPart, "Tables of the allocator"),
    LOFT_NEXT(purged_charged_bytes, kPart, "Free spans that the system refused to take back"),
    LOFT_NEXT(user_heap_resident_bytes, kPart, "Heaps that the program made, except regions"),
    LOFT_NEXT(huge_slack_bytes, kPart, "Resident because the rest of a huge page is in use"),
    LOFT_NEXT(untouched_bytes, kSubtracted,
              "In the parts above, but not resident: never written, or swapped out"),
    LOFT_FIRST("Not part of the sum", huge_page_bytes, kNow, "Resident memory in huge pages"),
    LOFT_NEXT(live_objects, kNow, "Objects handed out and not freed"),
    LOFT_FIRST("Heaps and threads", heaps, kNow, "Heaps that exist"),
    LOFT_NEXT(heaps_parked, kNow, "Heaps whose thread has ended and that no thread has adopted"),
    LOFT_NEXT(threads_attached, kNow, "Threads that have a thread cache"),
    LOFT_NEXT(threads_started, kEvents, "Threads that got a thread cache"),
    LOFT_NEXT(threads_exited, kEvents, "Threads that gave their cache back"),
    LOFT_NEXT(caches_emptied, kEvents, "Times that an idle cache was emptied"),
    LOFT_NEXT(adoptions, kEvents, "Parked heaps adopted by a new thread"),
    LOFT_NEXT(cores, kNow, "Processors that have a cache"),
    LOFT_NEXT(core_fences, kEvents, "Times that a fence closed the cache of another processor"),
    LOFT_NEXT(background_ticks, kEvents,
              "Rounds over unused memory, by slow paths or by loft's thread"),
    LOFT_NEXT(background_threads, kNow, "Threads that loft runs to purge unused memory"),
    LOFT_FIRST("Memory by its use, resident or not", allocated_bytes, kNow,
               "Objects handed out, or in caches, batches and messages"),
    LOFT_NEXT(large_bytes, kNow, "Large objects handed out"),
    LOFT_NEXT(slab_bytes, kNow, "Slabs, whatever the state of their objects"),
    LOFT_NEXT(metadata_bytes, kNow, "Tables of the allocator, in use"),
    LOFT_NEXT(committed_bytes, kNow, "Memory that may be resident"),
    LOFT_NEXT(dirty_bytes, kNow, "Free spans, and gaps of medium runs, that may be resident"),
    LOFT_NEXT(purged_bytes, kNow, "Free spans without memory, mapped or not"),
    LOFT_FIRST("Slabs and caches", slabs_created, kEvents, "Slabs cut from spans"),
    LOFT_NEXT(slabs_released, kEvents, "Slabs that became empty and were released"),
    LOFT_NEXT(slabs_taken_over, kEvents, "Slabs taken over from another heap"),
    LOFT_NEXT(refills, kEvents, "Caches filled from a heap"),
    LOFT_NEXT(flushes, kEvents, "Caches emptied in part"),
    LOFT_NEXT(checked_frees, kEvents, "Frees into a young bin, checked one by one"),
    LOFT_NEXT(bins_grown, kEvents, "Bins that got a longer array"),
    LOFT_NEXT(bins_released, kEvents, "Unused bins that gave up their array"),
    LOFT_FIRST("Messages", batches_sent, kEvents,
               "Batches put into an outbox, single objects included"),
    LOFT_NEXT(batches_evicted, kEvents, "Of these, evicted before they were full"),
    LOFT_NEXT(batch_objects, kEvents, "Objects in batches sent"),
    LOFT_NEXT(batch_messages, kEvents, "Messages that hold them"),
    LOFT_NEXT(objects_sent_singly, kEvents, "Objects sent without a batch"),
    LOFT_NEXT(posts, kEvents, "Atomic exchanges that posted messages"),
    LOFT_NEXT(forwards, kEvents, "Messages received for another heap and passed on"),
    LOFT_NEXT(drains, kEvents, "Inboxes drained that held messages"),
    LOFT_NEXT(heaps_helped, kEvents, "Inboxes drained by a refill of another heap"),
    LOFT_NEXT(messages_received, kEvents, "Messages that reached their heap"),
    LOFT_NEXT(objects_received, kEvents, "Objects in these messages"),
    LOFT_NEXT(turnarounds, kEvents,
              "Objects of other heaps that a thread kept for its own next calls"),
    LOFT_FIRST("Spans, large objects and the system", spans_acquired, kEvents,
               "Spans taken, by slabs and large objects"),
    LOFT_NEXT(spans_released, kEvents, "Spans released"),
    LOFT_NEXT(hole_bytes, kEvents, "Bytes purged from partly used slabs"),
    LOFT_NEXT(large_allocations, kEvents, "Large objects handed out so far"),
    LOFT_NEXT(large_cache_hits, kEvents, "Of these, on pages that were still resident"),
    LOFT_NEXT(large_resizes, kEvents,
              "Large objects that realloc gave other pages, without a copy"),
    LOFT_NEXT(large_moves, kEvents, "Of these, by moving their pages"),
    LOFT_NEXT(os_maps, kEvents, "System calls that mapped memory"),
    LOFT_NEXT(os_purges, kEvents, "System calls that gave memory back"),
    LOFT_NEXT(locks_taken, kEvents, "Locks taken, of heaps and of shared tables"),
    LOFT_NEXT(locks_waited_for, kEvents, "Of these, locks that were found held"),
    LOFT_FIRST("Heaps of the program", user_heaps, kNow, "Heaps that the program made"),
    LOFT_NEXT(user_heap_bytes, kNow, "Objects in these heaps"),
    LOFT_FIRST("Limits", soft_limit_bytes, kNow, "Soft limit in force, 0 for none"),
    LOFT_NEXT(hard_limit_bytes, kNow, "Hard limit in force, 0 for none"),
    LOFT_NEXT(group_limit_bytes, kNow, "The nearest limit of the control group, 0 for none"),
    LOFT_NEXT(group_used_bytes, kNow,
              "Usage that counts against it, of all processes of the group"),
    LOFT_NEXT(soft_limit_hits, kEvents, "Times that a soft limit was met"),
    LOFT_NEXT(hard_limit_refusals, kEvents, "Requests refused because of the hard limit"),
};
#undef LOFT_NEXT
#undef LOFT_FIRST
// Not in the table: struct_size and the two addresses, which no format prints.
static_assert(sizeof(loft_stats_t) == sizeof(uint64_t) * (3 + std::size(kFields)),
              "every field of loft_stats_t stands in the table");

#define LOFT_OF_CLASS(name, kind, help) {#name, &loft_class_stats_t::name, FieldKind::kind, help}
inline constexpr ClassField kClassFields[] = {
    LOFT_OF_CLASS(live_objects, kNow, "Objects handed out and not freed"),
    LOFT_OF_CLASS(resident_bytes, kNow, "Resident memory of slabs of the class"),
    LOFT_OF_CLASS(live_bytes, kNow, "Requested by the program and not freed"),
    LOFT_OF_CLASS(rounding_bytes, kNow, "Space of live objects beyond their requests"),
    LOFT_OF_CLASS(free_bytes, kNow, "Free memory on resident pages of slabs"),
    LOFT_OF_CLASS(cached_bytes, kNow, "In thread caches"),
    LOFT_OF_CLASS(in_flight_bytes, kNow, "In batches and messages"),
    LOFT_OF_CLASS(huge_slack_bytes, kNow, "Resident because the rest of a huge page is in use"),
    LOFT_OF_CLASS(untouched_bytes, kNow, "In the parts above, but not resident"),
    LOFT_OF_CLASS(slabs, kNow, "Slabs of the class"),
    LOFT_OF_CLASS(slabs_created, kEvents, "Slabs cut from spans"),
    LOFT_OF_CLASS(slabs_released, kEvents, "Slabs that became empty and were released"),
    LOFT_OF_CLASS(refills, kEvents, "Caches filled from a heap"),
    LOFT_OF_CLASS(objects_refilled, kEvents, "Objects that slabs handed out"),
    LOFT_OF_CLASS(objects_flushed, kEvents, "Objects returned by the threads that own the slabs"),
    LOFT_OF_CLASS(objects_sent, kEvents, "Objects freed by other threads and sent to their heaps"),
    LOFT_OF_CLASS(objects_received, kEvents, "Of these, objects that have arrived"),
};
#undef LOFT_OF_CLASS
static_assert(sizeof(loft_class_stats_t) == sizeof(uint64_t) * (1 + std::size(kClassFields)),
              "every field of loft_class_stats_t stands in the table");

}  // namespace loft
