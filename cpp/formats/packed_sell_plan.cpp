#include "formats/packed_sell.hpp"
#include "formats/packed_sell_build.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

std::vector<Options> PackedSellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t warps : {1, 2, 4, 8}) list.push_back({{"warps_per_slice", warps}});
    return list;
}

template <class T>
PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    HostPasses passes;
    return Builder<PackedSell<T>, HostPasses>::plan_for(passes, csr, tuning, target);
}

template <class T>
PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    HostPasses passes;
    return Builder<PackedSell<T>, HostPasses>::from_csr(passes, csr, plan);
}

#define INSTANTIATE(T)                                                                                           \
    template PackedSellPlan<T> PackedSell<T>::plan(const CsrMatrix<T>&, const PackedSellTuning&, const Target&); \
    template PackedSell<T> PackedSell<T>::from_csr(const CsrMatrix<T>&, const PackedSellPlan<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
