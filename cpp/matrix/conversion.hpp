// How a matrix in CSR becomes one in a format and back, wherever it is and the format is for.
#pragma once

#include <variant>

#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "formats/all.hpp"
#include "formats/builder.hpp"
#include "gpu/csr_passes.hpp"
#include "gpu/runtime.hpp"
#include "matrix/csr_source.hpp"

namespace spmvgpu {

// A copy of a format with every array in memory of its own on the device. All of it is asked for at once beforehand, so
// that a matrix that is too large fails before anything is allocated.
template <FormatContract Format>
Format copy_to(const Format& format, Device device) {
    if (device.is_cuda()) {
        std::size_t bytes = 0;
        Format::each_array(format, [&](const char*, const auto& array) { bytes += array.bytes(); });
        cuda::require_memory(bytes, device.ordinal);
    }
    Format copy = format;
    Format::each_array(copy, [&](const char*, auto& array) { array = array.to(device); });
    return copy;
}

template <class T>
CsrMatrix<T> read_csr(const AnyFormat<T>& storage) {
    return std::visit([](const auto& format) { return copy_to(format, {}).to_csr(); }, storage);
}

// Whether a format is planned and converted on the GPU that it is for.
template <class Format>
constexpr bool kBuildsOnGpu = kHasCuda&& Format::kTraits.builds_on_gpu;

template <class Format>
Device builder_for(Device device) {
    return kBuildsOnGpu<Format> ? device : Device{};
}

template <class T>
bool is_on_gpu(const CsrMatrix<T>& csr) {
    return csr.row_offsets.device().is_cuda();
}

// The plan of a matrix, and the format: made on the GPU that the matrix is on, or in host memory. What is not built on
// a GPU is planned of a copy; it can be built only of a matrix in host memory.
template <class Format, class T>
typename Format::Plan plan_where_it_is(const CsrMatrix<T>& csr, const typename Format::Tuning& tuning,
                                       const Target& target) {
    if constexpr (kBuildsOnGpu<Format>) {
        if (is_on_gpu(csr)) return plan_on_gpu<Format>(csr, tuning, target);
    }
    return Format::plan(is_on_gpu(csr) ? copy_to(csr, {}) : csr, tuning, target);
}
template <class Format, class T>
Format build_where_it_is(const CsrMatrix<T>& csr, const typename Format::Plan& plan) {
    if constexpr (kBuildsOnGpu<Format>) {
        if (is_on_gpu(csr)) return build_on_gpu<Format>(csr, plan);
    }
    return Format::from_csr(csr, plan);
}

template <class T>
index_t longest_row_where_it_is(const CsrMatrix<T>& csr) {
    if (is_on_gpu(csr)) return cuda::longest_row(csr.rows, csr.row_offsets.data(), csr.row_offsets.device().ordinal);
    HostPasses passes;
    return longest_row(passes, csr.rows, csr.row_offsets.data());
}

}  // namespace spmvgpu
