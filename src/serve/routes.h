// What each address of the socket answers.
#pragma once

#include <cstdint>
#include <string_view>

#include "profile/snapshot.h"
#include "serve/answer.h"
#include "serve/request.h"

namespace loft::serve {

// Changes an option; returns 0 or an error as loft_option_set does. Of the floor above.
using ChangeOption = int (*)(std::string_view name, std::string_view value);

// Answers a request that was read with `status`. Returns 0; or, with no answer yet, the seconds for
// which a difference is asked: the caller remembers the figures of now, and has the rest answered
// when they have passed.
uint64_t answer(Status status, const Request& request, ChangeOption change, Answer& to);
void answer_difference(const profile::Earlier& earlier, Answer& to);

// The most sites of which a difference is made.
inline constexpr size_t kMostSites = size_t{1} << 18;

}  // namespace loft::serve
