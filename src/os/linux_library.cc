namespace loft::os {

// Only libloft.so has it.
struct Symbol;
[[gnu::weak]] bool rename_in_libc(const Symbol* symbols, unsigned long count);

bool is_own_library();
bool is_own_library() { return rename_in_libc != nullptr; }

}  // namespace loft::os
