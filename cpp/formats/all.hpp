// THE list of formats: a format that is added here is reachable from Python, copied to devices, tested and benchmarked.
#pragma once

#include <stdexcept>
#include <string>
#include <variant>

#include "formats/bsell/model.hpp"
#include "formats/coo/model.hpp"
#include "formats/csr/model.hpp"
#include "formats/dia/model.hpp"
#include "formats/packed_sell/model.hpp"
#include "formats/papers/csr_b/layout.hpp"
#include "formats/papers/csr_m/layout.hpp"
#include "formats/papers/ell/model.hpp"
#include "formats/papers/hyb/model.hpp"
#include "formats/sdia/model.hpp"
#include "formats/sell/model.hpp"
#include "formats/stencil/model.hpp"
#include "formats/tsmv/model.hpp"

namespace spmvgpu {

template <class... Formats>
struct Checked {
    static_assert((FormatContract<Formats> && ...), "a format does not keep the contract in formats/format.hpp");
    using Variant = std::variant<Formats...>;
};

template <class T>
using AnyFormat = typename Checked<Coo<T>, Csr<T>, CsrM<T>, CsrB<T>, Ellpack<T>, EllpackR<T>, EllrT<T>, Hyb<T>, Dia<T>,
                                   Sell<T>, Bsell<T>, PackedSell<T>, Sdia<T>, Stencil<T>, Tsmv<T>>::Variant;

// Calls visit.template operator()<Format>() for every format of the list, in order.
template <class T, class Visit>
void for_each_format(Visit&& visit) {
    [&]<class... Formats>(std::variant<Formats...>*) {
        (visit.template operator()<Formats>(), ...);
    }(static_cast<AnyFormat<T>*>(nullptr));
}

[[noreturn]] inline void throw_unknown_format(const std::string& name) {
    std::string known;
    for_each_format<double>([&]<class Format>() { known += (known.empty() ? "" : ", ") + std::string(Format::kName); });
    throw std::invalid_argument("unknown format '" + name + "'; the formats are: " + known);
}

template <class T, class Visit>
void with_format(const std::string& name, Visit&& visit) {
    bool found = false;
    for_each_format<T>([&]<class Format>() {
        if (found || name != Format::kName) return;
        found = true;
        visit.template operator()<Format>();
    });
    if (!found) throw_unknown_format(name);
}

}  // namespace spmvgpu
