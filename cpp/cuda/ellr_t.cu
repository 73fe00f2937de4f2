#include <type_traits>

#include "cuda/ell.cuh"
#include "formats/ellr_t.hpp"

namespace spmvgpu {

template <class T>
void EllrT<T>::spmv_cuda(const Product<T>& product, Stream stream) const {
    const auto launch = [&]<int kThreads>(std::integral_constant<int, kThreads>) {
        cuda::launch_ell<kThreads>(slots, row_lengths.data(), product, tuning.padded.block_size, stream);
    };
    switch (tuning.threads_per_row) {
        case 1:
            return launch(std::integral_constant<int, 1>());
        case 2:
            return launch(std::integral_constant<int, 2>());
        case 4:
            return launch(std::integral_constant<int, 4>());
        case 8:
            return launch(std::integral_constant<int, 8>());
        case 16:
            return launch(std::integral_constant<int, 16>());
        default:
            return launch(std::integral_constant<int, 32>());
    }
}

template void EllrT<float>::spmv_cuda(const Product<float>&, Stream) const;
template void EllrT<double>::spmv_cuda(const Product<double>&, Stream) const;

}  // namespace spmvgpu
