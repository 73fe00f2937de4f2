// From a value known at run time to a template argument.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

namespace spmvgpu {

// Calls visit.template operator()<kValue>() with the one of the values kAllowed that equals `value`. Throws
// std::logic_error, naming `what`, the value and the allowed ones, if none does.
template <auto... kAllowed, class Value, class Visit>
void dispatch(const char* what, Value value, Visit&& visit) {
    static_assert((std::is_same_v<Value, std::remove_cv_t<decltype(kAllowed)>> && ...),
                  "of one type, with no conversion");
    const auto number = [](auto v) { return std::to_string(static_cast<long long>(v)); };
    const bool found = ((value == kAllowed && (visit.template operator()<kAllowed>(), true)) || ...);
    if (found) return;
    std::string allowed;
    ((allowed += (allowed.empty() ? "" : ", ") + number(kAllowed)), ...);
    throw std::logic_error(std::string(what) + " is " + number(value) + ", and there is code for " + allowed + " only");
}

}  // namespace spmvgpu
