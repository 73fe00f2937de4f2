#include "core/environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spmvgpu {

namespace {

constexpr const char* kOurs = "SPMVGPU_NUM_THREADS";
constexpr const char* kBlanks = " \t\n\v\f\r";

bool is_blank(std::string_view text) { return text.find_first_not_of(kBlanks) == text.npos; }

// Parses a number from 1 on.
std::optional<int> count_in(const std::string& text) {
    char* end = nullptr;
    const long count = std::strtol(text.c_str(), &end, 10);
    if (count < 1 || !is_blank(end)) return std::nullopt;
    return static_cast<int>(std::min<long>(count, std::numeric_limits<int>::max()));
}

std::string shown(std::string text) {
    constexpr std::size_t kMost = 40;
    if (text.size() > kMost) text = text.substr(0, kMost) + "...";
    for (char& c : text)
        if (c < ' ' || c > '~') c = '?';
    return "'" + text + "'";
}

std::string value_of(const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? "" : text;
}

}  // namespace

std::optional<int> threads_of_environment() {
    const std::string ours = value_of(kOurs);
    if (!is_blank(ours)) {
        const std::optional<int> count = count_in(ours);
        if (count) return count;
        throw std::invalid_argument(std::string(kOurs) + "=" + shown(ours) +
                                    " in the environment is not allowed; give a whole number of threads from 1 on, "
                                    "or unset it");
    }
    const std::string of_openmp = value_of("OMP_NUM_THREADS");
    return count_in(of_openmp.substr(0, of_openmp.find(',')));  // the first number of a list
}

}  // namespace spmvgpu
