#include "core/options.hpp"

#include <algorithm>
#include <cstdio>

#include "core/errors.hpp"

namespace spmvgpu {

// snprintf, not a stream: where libstdc++ is linked statically into the extension, streams find no locale to print
// with.
std::string format_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

namespace {

std::string text(const OptionValue& value) {
    if (auto* name = std::get_if<std::string>(&value)) return "'" + *name + "'";
    if (auto* number = std::get_if<double>(&value)) return format_number(*number);
    return std::to_string(std::get<std::int64_t>(value));
}

[[noreturn]] void refuse(const std::string& name, const OptionValue& value, const std::string& allowed) {
    throw std::invalid_argument("option " + name + "=" + text(value) + " is not allowed; give " + allowed);
}

template <class List>
std::string one_of(const List& allowed) {
    std::string list;
    for (const auto& entry : allowed) list += (list.empty() ? "one of " : ", ") + text(OptionValue(entry));
    return list;
}

}  // namespace

int read_one_of(const std::string& name, const OptionValue& value, const OneOf& allowed) {
    const std::vector<std::int64_t> list(allowed.begin(), allowed.end());
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || std::find(list.begin(), list.end(), *number) == list.end())
        refuse(name, value, one_of(list));
    return static_cast<int>(*number);
}

int read_name(const std::string& name, const OptionValue& value, const Names& allowed) {
    const auto* given = std::get_if<std::string>(&value);
    const auto found = given ? std::find(allowed.begin(), allowed.end(), *given) : allowed.end();
    if (found == allowed.end()) refuse(name, value, one_of(allowed));
    return static_cast<int>(found - allowed.begin());
}

int read_count_or(const std::string& name, const OptionValue& value, const CountOr& allowed) {
    if (value == OptionValue(allowed.name)) return allowed.highest + 1;
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || *number < 0 || *number > allowed.highest) {
        refuse(name, value,
               "a whole number from 0 to " + std::to_string(allowed.highest) + ", or " + text(allowed.name));
    }
    return static_cast<int>(*number);
}

double read_in_range(const std::string& name, const OptionValue& value, Range range) {
    double number = 0;
    if (auto* whole = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*whole);
    if (auto* real = std::get_if<double>(&value)) number = *real;
    // Written so that NaN fails too.
    if (std::holds_alternative<std::string>(value) || !(number >= range.low && number <= range.high)) {
        refuse(name, value, "a number from " + format_number(range.low) + " to " + format_number(range.high));
    }
    return number;
}

void throw_unknown_option(const std::string& format, const std::string& name, const std::vector<OptionInfo>& known) {
    std::string allowed;
    for (const auto& info : known) allowed += (allowed.empty() ? "" : ", ") + info.name;
    throw UnknownOption("format '" + format + "' has no option '" + name +
                        "'; it has: " + (allowed.empty() ? "none" : allowed));
}

}  // namespace spmvgpu
