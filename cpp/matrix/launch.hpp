// The product of a format on the device of its arrays: the one place that chooses between its CPU product and its
// kernels.
#pragma once

#include "formats/format.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

// A format that multiplies by values gathered from x may have them already.
template <FormatContract Format, class T>
void launch(const Format& format, const Product<T>& product, Device device, Stream stream, bool is_gathered = false) {
    constexpr bool kGathers = Format::kTraits.gathers_x_first;
    if constexpr (kHasCuda) {
        if (device.is_gpu()) {
            const gpu::DeviceGuard guard(device);
            if constexpr (kGathers) {
                if (!is_gathered) format.gather_x_cuda(product, stream);
            }
            return multiply_cuda(format, product, stream);
        }
    }
    if constexpr (kGathers) {
        if (!is_gathered && product.is_of_vectors()) format.gather_x(product);  // a panel is read in place
    }
    multiply_cpu(format, product);
}

}  // namespace spmvgpu
