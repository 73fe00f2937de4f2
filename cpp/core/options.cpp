#include "core/options.hpp"

#include <algorithm>
#include <sstream>

#include "core/errors.hpp"

namespace spmvgpu {

namespace {

std::string text(const OptionValue& value) {
    std::ostringstream out;
    if (auto* name = std::get_if<std::string>(&value)) {
        out << '\'' << *name << '\'';
    } else {
        std::visit([&](const auto& v) { out << v; }, value);
    }
    return out.str();
}

[[noreturn]] void refuse(const std::string& name, const OptionValue& value, const std::string& allowed) {
    throw std::invalid_argument("option " + name + "=" + text(value) + " is not allowed; give " + allowed);
}

template <class List>
std::string one_of(const List& allowed) {
    std::ostringstream out;
    out << "one of ";
    for (std::size_t i = 0; i < allowed.size(); ++i) out << (i ? ", " : "") << text(OptionValue(allowed[i]));
    return out.str();
}

}  // namespace

int read_one_of(const std::string& name, const OptionValue& value, const OneOf& allowed) {
    const std::vector<std::int64_t> list(allowed.begin(), allowed.end());
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || std::find(list.begin(), list.end(), *number) == list.end()) refuse(name, value, one_of(list));
    return static_cast<int>(*number);
}

int read_name(const std::string& name, const OptionValue& value, const Names& allowed) {
    const auto* given = std::get_if<std::string>(&value);
    const auto found = given ? std::find(allowed.begin(), allowed.end(), *given) : allowed.end();
    if (found == allowed.end()) refuse(name, value, one_of(allowed));
    return static_cast<int>(found - allowed.begin());
}

double read_in_range(const std::string& name, const OptionValue& value, Range range) {
    double number = 0;
    if (auto* whole = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*whole);
    if (auto* real = std::get_if<double>(&value)) number = *real;
    // Written so that NaN fails too.
    if (std::holds_alternative<std::string>(value) || !(number >= range.low && number <= range.high)) {
        std::ostringstream allowed;
        allowed << "a number from " << range.low << " to " << range.high;
        refuse(name, value, allowed.str());
    }
    return number;
}

void throw_unknown_option(const std::string& format, const std::string& name, const std::vector<OptionInfo>& known) {
    std::string allowed;
    for (const auto& info : known) allowed += (allowed.empty() ? "" : ", ") + info.name;
    throw UnknownOption("format '" + format + "' has no option '" + name + "'; it has: " + (allowed.empty() ? "none" : allowed));
}

}  // namespace spmvgpu
