#include "formats/host_build.hpp"
#include "formats/packed_sell/build.hpp"
#include "formats/packed_sell/layout.hpp"

namespace spmvgpu {

std::vector<Options> PackedSellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t warps : {1, 2, 4, 8}) list.push_back({{"warps_per_slice", warps}});
    return list;
}

SPMVGPU_BUILD_ON_HOST(PackedSell)

#define INSTANTIATE(T)                                                                                           \
    template PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>&, const PackedSellTuning&, const Target&); \
    template PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>&, const PackedSellPlan<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
