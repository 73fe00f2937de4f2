#include "matrix/value_updates.hpp"

#include <stdexcept>
#include <string>

#include "core/interrupt.hpp"
#include "core/passes/host_passes.hpp"
#include "formats/bsell/build.hpp"
#include "formats/builder.hpp"
#include "formats/dia/build.hpp"
#include "formats/papers/hyb/build.hpp"
#include "formats/sdia/build.hpp"
#include "formats/sell/build.hpp"
#include "formats/stencil/build.hpp"
#include "formats/tsmv/build.hpp"
#include "gpu/csr_passes.hpp"
#include "gpu/runtime.hpp"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace {

template <class Format, class T>
void copy_values(Format& format, const Array<T>& values, Device device) {
    if (device.is_cuda()) cuda::synchronize_device(device.ordinal);
    // What the matrix was built from may have a part in them.
    if (!format.values.is_sole_owner()) format.values = Array<T>(format.nnz, device);
    const Uninterrupted whole;
    copy_bytes(format.values.data(), device, values.data(), values.device(), values.bytes());
}

template <class Format, class T>
void spread_values(Format& format, std::optional<Array<index_t>>& map, const Array<T>& values, Device device) {
    if (device.is_cuda()) {
        if constexpr (kHasCuda) {
            if (!map) map = find_value_map_on_gpu(format, device.ordinal);
            const Uninterrupted whole;
            cuda::synchronize_device(device.ordinal);
            store_values_on_gpu(format, *map, values, device.ordinal);
        }
        return;
    }
    HostPasses passes;
    using FormatBuilder = Builder<Format, HostPasses>;
    if (!map) map = FormatBuilder::find_value_map(passes, format);
    const Uninterrupted whole;
    FormatBuilder::store_values(passes, format, map->data(), values.data());
}

}  // namespace

template <class T>
void ValueUpdates<T>::store(AnyFormat<T>& format, const Array<T>& values, Device device) {
    std::visit(
        [&]<class Format>(Format& f) {
            if constexpr (Format::kTraits.new_values == NewValues::kCopy) {
                copy_values(f, values, device);
            } else if constexpr (Format::kTraits.new_values == NewValues::kPass) {
                spread_values(f, map_, values, device);
            } else {
                throw std::logic_error(std::string(Format::kName) + " is built anew");
            }
        },
        format);
}

template <class T>
CsrMatrix<T> ValueUpdates<T>::in_pattern(const AnyFormat<T>& format, const Array<T>& values, Device builder) {
    if (!pattern_) {
        CsrMatrix<T> csr = read_csr<T>(format);
        csr.values = {};
        pattern_ = copy_to(csr, builder);
    }
    CsrMatrix<T> csr = *pattern_;
    csr.values = values.device() == builder ? values : values.to(builder);
    return csr;
}

template <class T>
std::size_t ValueUpdates<T>::nbytes() const {
    return (map_ ? map_->bytes() : 0) + (pattern_ ? pattern_->row_offsets.bytes() + pattern_->col_indices.bytes() : 0);
}

#define INSTANTIATE(T) template class ValueUpdates<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
