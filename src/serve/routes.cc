#include "serve/routes.h"

#include <cerrno>

#include "loft/loft.h"
#include "malloc/allocate.h"
#include "profile/samples.h"
#include "serve/slabs.h"
#include "stats/report.h"
#include "stats/stats.h"

namespace loft::serve {

namespace {

constexpr uint64_t kLongestDifference = 300;  // seconds
constexpr const char* kJson = "application/json";
constexpr const char* kProfile = "application/octet-stream";
constexpr const char* kNoProfile =
    "there is no profile: the option profile is off; POST profile=on to /options";

// --- GET ---

void put_stats(Answer& to, const char* type, loft_stats_format_t format) {
  const int file = to.begin_file();
  if (file < 0) return;
  Output output = Output::to_file(file);
  write_stats(output, Stats(), format);
  to.end_file(type, output.error());
}

void get_metrics(const Request&, Answer& to) {
  put_stats(to, "text/plain; version=0.0.4; charset=utf-8", LOFT_STATS_PROMETHEUS);
}

void get_stats(const Request&, Answer& to) { put_stats(to, kJson, LOFT_STATS_JSON); }

void get_slabs(const Request& request, Answer& to) {
  uint64_t from = 0;
  if (!read_parameter(request.query, "from", from)) {
    return to.say(kBadRequest, "the one parameter is from=ADDRESS, in decimal digits");
  }
  const int file = to.begin_file();
  if (file < 0) return;
  Output output = Output::to_file(file);
  write_slabs(output, from);
  to.end_file(kJson, output.error());
}

void put_profile(const profile::Told& told, Answer& to) {
  if (!profile::prepared()) return to.say(kUnavailable, kNoProfile);
  const int file = to.begin_file();
  if (file >= 0) to.end_file(kProfile, profile::write_pprof(file, told));
}

// That of a difference is answered elsewhere.
void get_heap(const Request&, Answer& to) { put_profile({}, to); }

void get_allocations(const Request& request, Answer& to) {
  if (!request.query.empty()) return to.say(kBadRequest, "there are no parameters here");
  put_profile({.shows_allocated = true}, to);
}

void get_peak(const Request& request, Answer& to) {
  if (!request.query.empty()) return to.say(kBadRequest, "there are no parameters here");
  put_profile({.moment = profile::Moment::kPeak}, to);
}

void get_index(const Request&, Answer& to) {
  to.say(kOk, "loft " LOFT_VERSION_STRING
              "\nGET /metrics\nGET /stats.json\nGET /slabs.json?from=ADDRESS\n"
              "GET /debug/pprof/heap?seconds=N\nGET /debug/pprof/allocs\nGET /peak\nPOST /purge\n"
              "POST /options, with lines NAME=VALUE");
}

// --- POST ---

void post_purge(Answer& to) {
  size_t threads = 0;
  size_t bytes = 0;
  const size_t purged = purge_everything(&threads, &bytes);
  const int file = to.begin_file();
  if (file < 0) return;
  Output output = Output::to_file(file);
  output.print("{\"purged_bytes\": %zu, \"unreached_threads\": %zu, \"unreached_bytes\": %zu}\n",
               purged, threads, bytes);
  output.flush();
  to.end_file(kJson, output.error());
}

const char* why_not(int error) {
  switch (error) {
    case ENOENT:
      return "there is no such option";
    case EPERM:
      return "this option is fixed";
    case EACCES:
      return "paths are set by the program alone";
    default:
      return "the option does not take that value";
  }
}

// Lines are obeyed in turn, until one cannot be.
void post_options(const Request& request, ChangeOption change, Answer& to) {
  std::string_view left = request.body;
  uint64_t number = 0;
  uint64_t set = 0;
  while (!left.empty()) {
    const size_t end = left.find('\n');
    std::string_view line = part_of(left, 0, end);
    left = end == left.npos ? std::string_view() : part_of(left, end + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line = part_of(line, 0, line.size() - 1);
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const int error =
        equals == line.npos ? EINVAL : change(part_of(line, 0, equals), part_of(line, equals + 1));
    if (error != 0) {
      return to.say(kBadRequest, Text() << "line " << number << ": " << why_not(error)
                                        << "; options set before it: " << set);
    }
    ++set;
  }
  to.say(kOk, Text() << "options set: " << set);
}

struct Route {
  std::string_view path;
  void (*get)(const Request& request, Answer& to);  // nullptr: the address takes POST
};

constexpr std::string_view kHeap = "/debug/pprof/heap";
constexpr std::string_view kOptions = "/options";
constexpr Route kRoutes[] = {
    {"/", get_index},           {"/metrics", get_metrics}, {"/stats.json", get_stats},
    {"/slabs.json", get_slabs}, {kHeap, get_heap},         {"/debug/pprof/allocs", get_allocations},
    {"/peak", get_peak},        {"/purge", nullptr},       {kOptions, nullptr},
};

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

// The refusals of the parser.
void refuse(Status status, Answer& to) {
  switch (status) {
    case kBodyTooLong:
      return to.say(status, Text() << "a body has at most " << uint64_t{kLongestBody} << " bytes");
    case kHeadTooLong:
      return to.say(status, Text() << "a head has at most " << uint64_t{kLongestHead}
                                   << " bytes and " << uint64_t{kMostFields} << " fields");
    case kNotImplemented:
      return to.say(status, "a body comes as it is, with Content-Length");
    case kExpectation:
      return to.say(status, "nothing can be expected beforehand");
    case kVersion:
      return to.say(status, "the versions are HTTP/1.0 and HTTP/1.1");
    default:
      return to.say(status, "this is no request of HTTP/1.1");
  }
}

}  // namespace

uint64_t answer(Status status, const Request& request, ChangeOption change, Answer& to) {
  if (status != kOk && status != kNotAllowed) return refuse(status, to), 0;
  const Route* const route = find_route(request.path);
  if (route == nullptr) {
    return to.say(kNotFound, "there is no such address; GET / lists those that there are"), 0;
  }
  if (status == kNotAllowed || (request.method == Method::kPost) != (route->get == nullptr)) {
    return to.refuse_method(route->get == nullptr ? "POST" : "GET, HEAD"), 0;
  }
  if (route->get == nullptr) {
    return route->path == kOptions ? post_options(request, change, to) : post_purge(to), 0;
  }
  uint64_t seconds = 0;
  if (route->path == kHeap) {
    if (!read_parameter(request.query, "seconds", seconds) || seconds > kLongestDifference) {
      return to.say(kBadRequest,
                    Text() << "the one parameter is seconds=N, at most " << kLongestDifference),
             0;
    }
    if (seconds != 0 && request.method == Method::kGet && profile::prepared()) return seconds;
  }
  route->get(request, to);
  if (request.method == Method::kHead) to.leave_body_off();
  return 0;
}

void answer_difference(const profile::Earlier& earlier, Answer& to) {
  put_profile({.since = &earlier}, to);
}

}  // namespace loft::serve
