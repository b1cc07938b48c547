"""The `loft` command: runs programs under the loft allocator, and compares allocators."""
