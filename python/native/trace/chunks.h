// The chunks of a trace and whose they are, checked: nothing behind this trusts the file for more.
#ifndef LOFT_TRACE_CHUNKS_H_
#define LOFT_TRACE_CHUNKS_H_

#include "format.h"
#include "tables.h"

namespace trace {

struct Image {
  uint64_t number;
  uint64_t parent;
  uint64_t forked;
  uint64_t forker;
  uint32_t pid;
  uint32_t threads;
  // All that was decoded from its chunks.
  uint64_t calls;
  uint64_t tickets;
  // What they can be if the file is no lie.
  uint64_t most_tickets;
  uint64_t lost;
  uint64_t first_tick;
  uint64_t last_tick;
  const char* words;
  size_t words_bytes;
};

class Chunks {
 public:
  // Reads the whole file once; fails if it is damaged.
  explicit Chunks(const char* path);

  Table<Image>& images() { return images_; }
  // The image that this one was forked from, if its chunks are here.
  const uint64_t* parent_of(size_t image) { return by_number_.find(images_[image].parent); }

  // Every call of an image, chunk by chunk: those of one thread are in their order.
  template <typename Take>
  void each_call(size_t image, const Take& take) {
    for (const Chunk& chunk : chunks_) {
      if (chunk.image != image) continue;
      read(chunk, [&](const Event& event) { take(chunk.header.thread, event); });
    }
  }

 private:
  struct Chunk {
    ChunkHeader header;
    const uint8_t* calls;
    size_t image;
  };

  template <typename Take>
  static void read(const Chunk& chunk, const Take& take) {
    Reader reader(chunk.calls, chunk.calls + chunk.header.bytes - sizeof(ChunkHeader),
                  {chunk.header.ticket, chunk.header.ticks, 0});
    Event event;
    while (reader.more()) {
      if (!reader.read(event)) fail("damaged: there is a call that is none");
      take(event);
    }
  }
  size_t image_of(const ChunkHeader& header);

  Mapping file_;
  Table<Chunk> chunks_;
  Table<Image> images_;
  Map by_number_;
};

}  // namespace trace

#endif  // LOFT_TRACE_CHUNKS_H_
