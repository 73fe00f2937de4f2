// Options: how a caller sets a format's tunables by name. A tuning struct names its fields once, in
//     template <class Self, class Visit> static void each_param(Self& self, Visit&& visit)
// calling visit(name, field, allowed values), and reading, writing and listing them all walk that one function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace spmvgpu {

using OptionValue = std::variant<std::int64_t, double, std::string>;
using Options = std::map<std::string, OptionValue>;

// Allowed values of a tunable: a list of numbers, names for the values of an enum, a range, or whole numbers from 0 to
// a highest one with a name for what lies above it.
using OneOf = std::vector<int>;
using Names = std::vector<std::string>;
struct Range {
    double low, high;
};
struct CountOr {
    int highest;
    std::string name;  // name of highest + 1
};

struct OptionInfo {
    std::string name;
    OptionValue value;
    std::variant<OneOf, Names, Range, CountOr> allowed;
};

std::string format_number(double value);  // at most six digits, as in "0.25" or "1e+06"

// Readers and writers of one field, by kind; they throw std::invalid_argument naming the value and the allowed ones.
int read_one_of(const std::string& name, const OptionValue& value, const OneOf& allowed);
int read_name(const std::string& name, const OptionValue& value, const Names& allowed);
int read_count_or(const std::string& name, const OptionValue& value, const CountOr& allowed);
double read_in_range(const std::string& name, const OptionValue& value, Range range);
[[noreturn]] void throw_unknown_option(const std::string& format, const std::string& name,
                                       const std::vector<OptionInfo>& known);

struct OptionLister {
    std::vector<OptionInfo> list;

    void operator()(const char* name, int value, const OneOf& allowed) {
        list.push_back({name, std::int64_t(value), allowed});
    }
    void operator()(const char* name, double value, Range allowed) { list.push_back({name, value, allowed}); }
    void operator()(const char* name, int value, const CountOr& allowed) {
        list.push_back({name, value > allowed.highest ? OptionValue(allowed.name) : std::int64_t(value), allowed});
    }
    template <class Enum>
    void operator()(const char* name, Enum value, const Names& allowed) {
        list.push_back({name, allowed[static_cast<int>(value)], allowed});
    }
};

struct OptionReader {
    explicit OptionReader(const Options& options) : options(options) {}

    void operator()(const char* name, int& field, const OneOf& allowed) const {
        if (auto* value = find(name)) field = read_one_of(name, *value, allowed);
    }
    void operator()(const char* name, double& field, Range allowed) const {
        if (auto* value = find(name)) field = read_in_range(name, *value, allowed);
    }
    void operator()(const char* name, int& field, const CountOr& allowed) const {
        if (auto* value = find(name)) field = read_count_or(name, *value, allowed);
    }
    template <class Enum>
    void operator()(const char* name, Enum& field, const Names& allowed) const {
        if (auto* value = find(name)) field = static_cast<Enum>(read_name(name, *value, allowed));
    }

private:
    const OptionValue* find(const char* name) const {
        const auto found = options.find(name);
        return found == options.end() ? nullptr : &found->second;
    }

    const Options& options;
};

template <class Tuning>
std::vector<OptionInfo> list_options(const Tuning& tuning) {
    OptionLister lister;
    Tuning::each_param(tuning, lister);
    return lister.list;
}

template <class Tuning>
Tuning read_options(const std::string& format, const Options& options) {
    Tuning tuning;
    const auto known = list_options(tuning);
    for (const auto& [name, value] : options) {
        bool found = false;
        for (const auto& info : known) found = found || info.name == name;
        if (!found) throw_unknown_option(format, name, known);
    }
    Tuning::each_param(tuning, OptionReader(options));
    return tuning;
}

}  // namespace spmvgpu
