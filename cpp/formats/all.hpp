// THE list of formats: a format that is added here is reachable from Python, copied to devices, tested and benchmarked.
#pragma once

#include <variant>

#include "formats/bsell/layout.hpp"
#include "formats/coo/layout.hpp"
#include "formats/csr/layout.hpp"
#include "formats/dia/layout.hpp"
#include "formats/format.hpp"
#include "formats/packed_sell/layout.hpp"
#include "formats/papers/csr_b/layout.hpp"
#include "formats/papers/csr_m/layout.hpp"
#include "formats/papers/ellpack/layout.hpp"
#include "formats/papers/ellpack_r/layout.hpp"
#include "formats/papers/ellr_t/layout.hpp"
#include "formats/papers/hyb/layout.hpp"
#include "formats/sdia/layout.hpp"
#include "formats/sell/layout.hpp"
#include "formats/stencil/layout.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu {

template <class... Formats>
struct Checked {
    static_assert((FormatContract<Formats> && ...), "a format does not keep the contract in formats/format.hpp");
    using Variant = std::variant<Formats...>;
};

template <class T>
using AnyFormat = typename Checked<Coo<T>, Csr<T>, CsrM<T>, CsrB<T>, Ellpack<T>, EllpackR<T>, EllrT<T>, Hyb<T>, Dia<T>,
                                   Sell<T>, Bsell<T>, PackedSell<T>, Sdia<T>, Stencil<T>, Tsmv<T>>::Variant;

}  // namespace spmvgpu
