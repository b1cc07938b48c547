#include "stats/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "os/os.h"
#include "stats/fields.h"
#include "stats/stats.h"

namespace loft {

void Output::print(const char* format, ...) {
  if (kPiece - used_ < kLongestPrint) {
    size_t end = used_;
    while (end != 0 && piece_[end - 1] != '\n') --end;
    put(end != 0 ? end : used_);
  }
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(piece_ + used_, kPiece - used_, format, arguments);
  va_end(arguments);
  if (n > 0) used_ += least(static_cast<size_t>(n), kPiece - used_ - 1);
}

void Output::flush() { put(used_); }

// Writes the first `bytes` of the piece.
void Output::put(size_t bytes) {
  if (in_memory_) {
    if (size_ < capacity_) {
      const size_t fits = least(bytes, capacity_ - size_ - 1);
      memcpy(text_ + size_, piece_, fits);
      text_[size_ + fits] = 0;
    }
  } else if (error_ == 0) {
    error_ = os::write_all(file_, piece_, bytes);
  }
  size_ += bytes;
  used_ -= bytes;
  memmove(piece_, piece_ + bytes, used_);
}

namespace {

unsigned long long as_printed(uint64_t n) { return n; }

bool in_bytes(const char* name) {
  const size_t length = strlen(name);
  return length > 6 && strcmp(name + length - 6, "_bytes") == 0;
}

// A number with commas between its thousands, and a minus sign before what is subtracted.
class Figure {
 public:
  explicit Figure(uint64_t n, bool subtracted = false) {
    *at_ = 0;
    for (int digits = 0; digits == 0 || n != 0; ++digits, n /= 10) {
      if (digits != 0 && digits % 3 == 0) *--at_ = ',';
      *--at_ = static_cast<char>('0' + n % 10);
    }
    if (subtracted) *--at_ = '-';
  }
  const char* text() const { return at_; }

 private:
  char buffer_[28];
  char* at_ = buffer_ + sizeof(buffer_) - 1;
};

// True for a class that was never used. The table for people omits it.
bool is_empty(const loft_class_stats_t& row) {
  return row.refills == 0 && row.resident_bytes == 0 && row.live_objects == 0;
}

// The share of a part of the resident memory in tenths of a percent: that of the sum so far, less
// that of the sum before. So all of them add up to 100.0, however each is rounded.
class Shares {
 public:
  explicit Shares(uint64_t whole) : whole_(whole) {}
  uint64_t next(uint64_t bytes, bool subtracted) {
    const uint64_t before = sum_;
    sum_ = subtracted ? sum_ - bytes : sum_ + bytes;
    return subtracted ? of(before) - of(sum_) : of(sum_) - of(before);
  }

 private:
  uint64_t of(uint64_t sum) const { return whole_ == 0 ? 0 : (sum * 1000 + whole_ / 2) / whole_; }

  uint64_t whole_;
  uint64_t sum_ = 0;
};

void write_text(Output& output, const Stats& stats) {
  const loft_stats_t& all = stats.all();
  output.print("loft %s. Zeros are left out.\n", LOFT_VERSION_STRING);
  Shares shares(all.resident_bytes);
  const char* group = nullptr;  // the heading to come
  for (const Field& field : kFields) {
    if (field.group != nullptr) group = field.group;
    const uint64_t value = all.*field.value;
    if (value == 0) continue;
    if (group != nullptr) output.print("\n%s\n", group);
    group = nullptr;
    const bool subtracted = field.kind == FieldKind::kSubtracted;
    const Figure figure(value, subtracted);
    if (!subtracted && field.kind != FieldKind::kPart) {
      output.print("  %s: %s%s\n", field.help, figure.text(), in_bytes(field.name) ? " bytes" : "");
      continue;
    }
    const uint64_t share = shares.next(value, subtracted);
    char percent[32];
    snprintf(percent, sizeof(percent), "%s%llu.%llu", subtracted ? "-" : "", as_printed(share / 10),
             as_printed(share % 10));
    output.print("%18s bytes %6s %%  %s\n", figure.text(), percent, field.help);
  }
  output.print("\nBytes by size class; resident is the sum of the next seven\n");
  output.print("%9s %12s %12s %12s %12s %12s %12s %12s %12s %9s\n", "class", "resident", "live",
               "rounding", "free", "cached", "in flight", "huge slack", "untouched", "slabs");
  for (size_t i = 0; i < kStatsRows; ++i) {
    const loft_class_stats_t row = stats.row(i);
    if (is_empty(row)) continue;
    if (row.object_bytes != 0) {
      output.print("%9llu", as_printed(row.object_bytes));
    } else {
      output.print("%9s", "large");
    }
    for (const uint64_t bytes :
         {row.resident_bytes, row.live_bytes, row.rounding_bytes, row.free_bytes, row.cached_bytes,
          row.in_flight_bytes, row.huge_slack_bytes}) {
      output.print(" %12llu", as_printed(bytes));
    }
    output.print(" %12lld %9llu\n", -static_cast<long long>(row.untouched_bytes),
                 as_printed(row.slabs));
  }
}

void write_json(Output& output, const Stats& stats) {
  output.print("{\"loft\": \"%s\"", LOFT_VERSION_STRING);
  for (const Field& field : kFields) {
    output.print(", \"%s\": %llu", field.name, as_printed(stats.all().*field.value));
  }
  output.print(", \"classes\": [");
  for (size_t i = 0; i < kStatsRows; ++i) {
    const loft_class_stats_t row = stats.row(i);
    output.print("%s{\"object_bytes\": %llu", i == 0 ? "" : ", ", as_printed(row.object_bytes));
    for (const ClassField& field : kClassFields) {
      output.print(", \"%s\": %llu", field.name, as_printed(row.*field.value));
    }
    output.print("}");
  }
  output.print("]}\n");
}

// Prints the two lines before a metric. Returns the suffix of its name.
const char* write_head(Output& output, const char* prefix, const char* name, FieldKind kind,
                       const char* help) {
  const bool events = kind == FieldKind::kEvents;
  const char* suffix = events ? "_total" : "";
  output.print("# HELP %s%s%s %s.\n", prefix, name, suffix, help);
  output.print("# TYPE %s%s%s %s\n", prefix, name, suffix, events ? "counter" : "gauge");
  return suffix;
}

void write_metrics(Output& output, const Stats& stats) {
  for (const Field& field : kFields) {
    const char* suffix = write_head(output, "loft_", field.name, field.kind, field.help);
    output.print("loft_%s%s %llu\n", field.name, suffix, as_printed(stats.all().*field.value));
  }
  for (const ClassField& field : kClassFields) {
    const char* suffix = write_head(output, "loft_class_", field.name, field.kind, field.help);
    for (size_t i = 0; i < kStatsRows; ++i) {
      const loft_class_stats_t row = stats.row(i);
      output.print("loft_class_%s%s{size_class=\"", field.name, suffix);
      if (row.object_bytes != 0) {
        output.print("%llu", as_printed(row.object_bytes));
      } else {
        output.print("large");
      }
      output.print("\"} %llu\n", as_printed(row.*field.value));
    }
  }
}

}  // namespace

bool write_stats(Output& output, const Stats& stats, loft_stats_format_t format) {
  switch (format) {
    case LOFT_STATS_TEXT:
      write_text(output, stats);
      break;
    case LOFT_STATS_JSON:
      write_json(output, stats);
      break;
    case LOFT_STATS_PROMETHEUS:
      write_metrics(output, stats);
      break;
    default:
      return false;
  }
  output.flush();
  return true;
}

}  // namespace loft
