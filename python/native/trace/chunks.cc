#include "chunks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trace {

namespace {

// More threads than a process can have had between two chunks of one of them.
constexpr uint32_t kMostThreads = 1 << 24;

Mapping map_file(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0) fail("cannot be read");
  const auto length = static_cast<size_t>(about.st_size);
  void* p = length == 0 ? nullptr : mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (p == MAP_FAILED) fail("cannot be mapped");
  return {p, length};
}

}  // namespace

size_t Chunks::image_of(const ChunkHeader& header) {
  if (const uint64_t* known = by_number_.find(header.image)) return *known;
  Image image = {};
  image.number = header.image;
  image.pid = header.pid;
  image.first_tick = UINT64_MAX;
  images_.add(image);
  by_number_.set(header.image, images_.size() - 1);
  return images_.size() - 1;
}

Chunks::Chunks(const char* path) : file_(map_file(path)) {
  // By image and thread, the number of the next chunk.
  Map next;
  size_t at = 0;
  while (at < file_.size()) {
    // They follow one another without gaps, whatever their length.
    ChunkHeader copy;
    if (file_.size() - at < sizeof(ChunkHeader)) fail("damaged: it ends within a chunk");
    memcpy(&copy, file_.begin() + at, sizeof(copy));
    const bool known = copy.magic == kCallsChunk || copy.magic == kProcessChunk;
    if (!known || copy.bytes < sizeof(ChunkHeader) || copy.bytes > kChunkBytes || copy.image == 0 ||
        copy.thread >= kMostThreads) {
      fail("damaged: there is a chunk that is none");
    }
    if (copy.bytes > file_.size() - at) fail("damaged: it ends within a chunk");
    const uint8_t* bytes = file_.begin() + at;
    at += copy.bytes;
    const size_t index = image_of(copy);
    Image& image = images_[index];
    if (copy.magic == kProcessChunk) {
      if (copy.bytes < sizeof(copy) + sizeof(ProcessHeader)) fail("damaged: a process of no name");
      ProcessHeader more;
      memcpy(&more, bytes + sizeof(copy), sizeof(more));
      image.parent = more.parent;
      image.forked = more.forked;
      image.forker = more.forker;
      image.words = reinterpret_cast<const char*>(bytes + sizeof(copy) + sizeof(more));
      image.words_bytes = copy.bytes - sizeof(copy) - sizeof(more);
      continue;
    }
    // One that was on its way when the process ended may be there twice.
    const uint64_t whose = (static_cast<uint64_t>(index) << 24 | copy.thread) + 1;
    uint64_t* serial = next.find(whose);
    if (serial != nullptr && copy.serial < *serial) continue;
    if (serial == nullptr) image.threads++;
    next.set(whose, static_cast<uint64_t>(copy.serial) + 1);
    image.lost += copy.lost;
    chunks_.add({copy, bytes + sizeof(copy), index});
    read(chunks_.back(), [&](const Event& event) {
      image.calls++;
      const uint64_t last = moves(event.call) ? event.end : event.ticket;
      if (last > image.tickets) image.tickets = last;
      if (event.ticks < image.first_tick) image.first_tick = event.ticks;
      if (event.ticks > image.last_tick) image.last_tick = event.ticks;
    });
  }
  for (Image& image : images_) {
    if (image.first_tick > image.last_tick) image.first_tick = image.last_tick;
    // A process that was killed lacks what its threads had in their buffers, and no more.
    const uint64_t most = (image.calls + (image.threads + 1) * kChunkBytes) * 2;
    if (image.tickets > most) fail("damaged: there are calls of a time that never was");
    image.most_tickets = most;
  }
  for (const Image& image : images_) {
    const uint64_t* parent = image.parent == 0 ? nullptr : by_number_.find(image.parent);
    if (parent != nullptr && image.forked > images_[*parent].most_tickets) {
      fail("damaged: a process was forked at a time that never was");
    }
  }
}

}  // namespace trace
