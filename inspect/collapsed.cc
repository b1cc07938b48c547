#include "base/text.h"
#include "inspect/forms.h"
#include "inspect/snapshot.h"

namespace loft::inspect {

namespace {

void put(Sink& sink, const Text& text) { sink.put(text.data(), text.size()); }

Text frame_text(const Locations& locations, uintptr_t address) {
  Text text;
  const size_t id = locations.code_of(address);
  if (id == 0) return text << reinterpret_cast<const void*>(address);
  const Code& code = locations.code(id - 1);
  // Semicolons and line ends separate.
  for (const char* c = code.base_name(); *c != 0; ++c) {
    const char one[] = {*c == ';' || *c == '\n' ? '_' : *c, 0};
    text << one;
  }
  return text << "+" << reinterpret_cast<const void*>(address - code.begin + code.offset);
}

}  // namespace

void write_collapsed(Sink& sink, const Source& source, const Locations& locations) {
  for (const profile::Site* site = source.newest; site != nullptr; site = site->older) {
    const uint64_t bytes = figures_of(*site, source.moment).used_bytes;
    if (bytes == 0) continue;
    if (site->depth == 0) put(sink, Text() << "no stack ");
    for (unsigned i = site->depth; i != 0; --i) {
      put(sink, frame_text(locations, site->frames()[i - 1]) << (i == 1 ? " " : ";"));
    }
    put(sink, Text() << bytes << "\n");
  }
}

}  // namespace loft::inspect
