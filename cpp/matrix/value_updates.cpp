#include "matrix/value_updates.hpp"

#include "core/interrupt.hpp"
#include "formats/builder.hpp"
#include "gpu/runtime.hpp"
#include "matrix/csr_source.hpp"

namespace spmvgpu {

namespace {

template <class Format, class T>
void copy_values(Format& format, const Array<T>& values, Device device) {
    gpu::synchronize_device(device);
    // The arrays may be shared with the matrix that it was built from.
    if (!format.values.is_sole_owner()) format.values = Array<T>(format.nnz, device);
    const Uninterrupted whole;
    copy_bytes(format.values.data(), device, values.data(), values.device(), values.bytes());
}

template <class Format, class T>
void spread_values(Format& format, std::optional<Array<index_t>>& map, const Array<T>& values, Device device) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) {
            if (!map) map = find_value_map_on_gpu(format, device.ordinal);
            const Uninterrupted whole;
            gpu::synchronize_device(device);
            return store_values_on_gpu(format, *map, values, device.ordinal);
        }
    }
    if (!map) map = find_value_map_on_host(format);
    const Uninterrupted whole;
    store_values_on_host(format, *map, values);
}

}  // namespace

// The matrix that a format was built from, with these values, on the device of the build. The first call reads the
// pattern from the format, in host memory.
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
void ValueUpdates<T>::store(FormatMatrix<T>& stored, const Array<T>& values, const Options& options, Device device) {
    std::visit(
        [&]<class Format>(Format& format) {
            if constexpr (Format::kTraits.new_values == NewValues::kCopy) {
                copy_values(format, values, device);
            } else if constexpr (Format::kTraits.new_values == NewValues::kPass) {
                spread_values(format, map_, values, device);
            } else {
                gpu::synchronize_device(device);
                const CsrMatrix<T> csr = in_pattern(stored.format, values, kBuildsOnGpu<Format> ? device : Device{});
                FormatMatrix<T> built = convert(csr, Format::kName, options, device);
                built.took = stored.took;
                stored = std::move(built);
            }
        },
        stored.format);
}

template <class T>
std::size_t ValueUpdates<T>::nbytes() const {
    return (map_ ? map_->bytes() : 0) + (pattern_ ? pattern_->row_offsets.bytes() + pattern_->col_indices.bytes() : 0);
}

#define INSTANTIATE(T) template class ValueUpdates<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
