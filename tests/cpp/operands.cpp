// What products check of their operands in builds that do, for every format.
//
// Usage: operands null; silent if all is well.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <variant>

#include "formats/all.hpp"
#include "no_gpu.hpp"

namespace {

using namespace spmvgpu;

void expect(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

// The message that refuses a null operand. Empty if the product needs no operand that is null.
template <class F>
std::string refusal(const F& format, const Product<double>& product, std::size_t scratch_bytes = 0) {
    try {
        check_operands(format, product, scratch_bytes);
    } catch (const std::logic_error& error) {
        return error.what();
    }
    return "";
}

template <class F>
void check_format() {
    const std::string name = F::kName;
    double x = 0, y = 0;
    Wide<double> dots{};
    const auto names = [&](const std::string& said, const char* operand) {
        expect(said.find(name) != std::string::npos && said.find(operand) != std::string::npos,
               name + ", " + operand + " is null: '" + said + "'");
    };
    F format{};
    expect(refusal(format, {nullptr, nullptr}).empty(), name + " without rows");
    format.rows = format.cols = 3;
    names(refusal(format, {&x, nullptr}), "uses y");
    const std::string without_entries = refusal(format, {nullptr, &y});
    expect(without_entries.empty() != F::kTraits.reads_all_of_x, name + " without entries: " + without_entries);
    Product<double> product{nullptr, &y};
    product.dots = &dots;
    names(refusal(format, product), "uses x");
    product.columns = 0;
    expect(refusal(format, product).empty(), name + " with no column");
    format.nnz = 3;
    names(refusal(format, {nullptr, &y}), "uses x");
    expect(refusal(format, {&x, &y}).empty(), name + " with all that it needs");
    names(refusal(format, {&x, &y}, 8), "scratch");
}

template <class... Formats>
void check_every_format(std::variant<Formats...>*) {
    (check_format<Formats>(), ...);
}

}  // namespace

int main() {
    try {
        check_every_format(static_cast<AnyFormat<double>*>(nullptr));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
