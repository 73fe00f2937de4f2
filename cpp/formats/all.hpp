// THE list of formats: a format that is added here is reachable from Python, copied to devices, tested and benchmarked.
#pragma once

#include <variant>

#include "formats/bsell.hpp"
#include "formats/coo.hpp"
#include "formats/csr.hpp"
#include "formats/csr_b.hpp"
#include "formats/csr_m.hpp"
#include "formats/dia.hpp"
#include "formats/ellpack.hpp"
#include "formats/ellpack_r.hpp"
#include "formats/ellr_t.hpp"
#include "formats/format.hpp"
#include "formats/hyb.hpp"
#include "formats/packed_sell.hpp"
#include "formats/sdia.hpp"
#include "formats/sell.hpp"
#include "formats/stencil.hpp"
#include "formats/tsmv.hpp"

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
